/* How a program reaches the failing libraries that its own library has loaded, and what it has
 * open. */
#ifndef ARM_H
#define ARM_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void *failing_function(const char *name)
{
    const char *file = getenv("FERRIBAND_VERBS");
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no failing library: %s\n", dlerror());
        exit(2);
    }
    return found;
}

/* Call number `at` of a function, or of any if `name` is NULL, fails from now on; 0: none. */
static inline void arm(long at, const char *name)
{
    ((void (*)(long, const char *))failing_function("failing_arm"))(at, name);
}

/* Which call has failed since. */
static inline const char *has_failed(void)
{
    return ((const char *(*)(void))failing_function("failing_name"))();
}

/* How many requests of an opcode were posted. */
static inline long posted(unsigned opcode)
{
    return ((long (*)(unsigned))failing_function("failing_posted"))(opcode);
}

/* The hosts of all peers are gone from now on. */
static inline void lose_peers(void)
{
    ((void (*)(void))failing_function("failing_gone"))();
}

/* Objects of verbs and of the connection manager that were made and not taken back, and
 * descriptors of the library's own. Those of an adapter come and go with other processes, too. */
static inline long alive(void)
{
    static const char *const own[] = {"ferriband-putget", "/maps", "userfaultfd"};
    long count = ((long (*)(void))failing_function("failing_alive"))();
    char link[300], text[200];
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        for (size_t at = 0; at < sizeof own / sizeof *own; at++)
            count += strstr(text, own[at]) != NULL;
    }
    return count;
}

#endif
