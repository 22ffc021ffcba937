/* A child of a process that has opened both drivers, forked while a thread is in the library: what
 * its parent has opened is EIO there, closing it does nothing, and it may open its own. The parent
 * does not notice. */
#include <errno.h>
#include <ferriband_putget.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static ferriband_putget_t *putget;
static ferriband_channels_t *channels;
static volatile int stops;

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%d: %s\n", (int)getpid(), what);
    exit(1);
}

#define CHECK(what) check(what, #what)

static void *hammer(void *unused)
{
    ferriband_putget_peer_t peer;
    ferriband_channel_t channel;
    (void)unused;
    while (!stops) {
        ferriband_putget_accept(putget, 1, &peer);
        ferriband_channels_accept(channels, 1, &channel);
    }
    return NULL;
}

int main(void)
{
    char text[64];
    uint16_t port, first;
    int status;
    pthread_t thread;
    CHECK(!ferriband_putget_open("127.0.0.1", 0, &putget));
    CHECK(!ferriband_channels_open("127.0.0.1", 0, &channels));
    CHECK(!ferriband_putget_address(putget, text, sizeof text, &port));
    CHECK(!ferriband_channels_address(channels, text, sizeof text, &first));
    CHECK(!pthread_create(&thread, NULL, hammer, NULL));
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            ferriband_putget_t *own;
            ferriband_channels_t *first_own;
            ferriband_putget_peer_t peer;
            ferriband_channel_t channel;
            alarm(30);
            CHECK(ferriband_putget_cancel(putget, 1) == EIO);
            CHECK(ferriband_channels_accept(channels, -1, &channel) == EIO);
            ferriband_putget_close(putget);
            ferriband_channels_close(channels);
            if (round % 2) {
                CHECK(!ferriband_putget_open("127.0.0.1", 0, &own));
                CHECK(!ferriband_putget_connect(own, "127.0.0.1", port, 20000, &peer));
                ferriband_putget_close(own);
                CHECK(!ferriband_channels_open("127.0.0.1", 0, &first_own));
                CHECK(!ferriband_channels_connect(first_own, "127.0.0.1", first, 20000, &channel));
                ferriband_channels_close(first_own);
            }
            exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        CHECK(ferriband_putget_cancel(putget, 1) == ENOENT);
    }
    stops = 1;
    CHECK(!pthread_join(thread, NULL));
    ferriband_putget_close(putget);
    ferriband_channels_close(channels);
    puts("ok");
    return 0;
}
