/* What a program expects, or it ends. */
#ifndef CHECKS_H
#define CHECKS_H

#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(call) check(call, #call, __LINE__)
#define HOLDS(what) check(!(what), #what, __LINE__)

static inline void check(int status, const char *what, int line)
{
    if (status != PTL_OK) {
        fprintf(stderr, "line %d, process %d: %s: %d\n", line, (int)getpid(), what, status);
        exit(1);
    }
}

#endif
