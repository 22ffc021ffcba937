/* The latency test of papers/002, Fig. 6: both sides bind an incoming notification, put, and poll
 * the notification with sched_yield() between; the slave puts once less. One buffer each way, no
 * acknowledgements.
 *
 * pingpong listen|ADDRESS:PORT LENGTH ROUNDS CROSSOVER [OWN-ADDRESS:PORT] */
#include <ferriband_putget.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA = 1, NOTES = 2 };

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void await(ferriband_putget_notification_t *note)
{
    while (!__atomic_load_n(&note->state, __ATOMIC_ACQUIRE))
        sched_yield();
    if (note->status != FERRIBAND_PUTGET_OK) {
        fprintf(stderr, "status %u\n", note->status);
        exit(1);
    }
    note->state = 0;
}

int main(int argc, char **argv)
{
    ferriband_putget_t *putget;
    ferriband_putget_peer_t peer;
    ferriband_putget_notification_t *note;
    uint32_t tag;
    uint16_t port;
    char text[64], *colon, *own = argc > 5 ? argv[5] : "127.0.0.1";
    int own_port = 0;
    if (argc != 5 && argc != 6)
        return 2;
    if (argc > 5 && (colon = strrchr(own, ':'))) {
        *colon = 0;
        own_port = atoi(colon + 1);
    }
    size_t length = strtoul(argv[2], NULL, 0);
    long rounds = atol(argv[3]);
    int is_master = strcmp(argv[1], "listen") != 0;
    unsigned char *data = calloc(1, length + 8);
    note = calloc(2, sizeof *note);

    check(ferriband_putget_open(own, own_port, &putget), "open");
    check(ferriband_putget_register(putget, data, length + 8, (tag = DATA, &tag)), "register");
    check(ferriband_putget_register(putget, note, 2 * sizeof *note, (tag = NOTES, &tag)), "register");
    ferriband_putget_set_crossover(putget, atol(argv[4]), atol(argv[4]));
    /* bound before the peer can put */
    if (!is_master)
        check(ferriband_putget_notify(putget, DATA, FERRIBAND_PUTGET_INCOMING, note), "notify");
    if (is_master) {
        if (!(colon = strrchr(argv[1], ':')))
            return 2;
        *colon = 0;
        check(ferriband_putget_connect(putget, argv[1], atoi(colon + 1), 20000, &peer), "connect");
    } else {
        check(ferriband_putget_address(putget, text, sizeof text, &port), "address");
        printf("%s:%u\n", text, port);
        fflush(stdout);
        check(ferriband_putget_accept(putget, 20000, &peer), "accept");
    }
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long round = 0; round < rounds; round++) {
        if (is_master) {
            check(ferriband_putget_notify(putget, DATA, FERRIBAND_PUTGET_INCOMING, note), "notify");
            memset(data, (int)(round % 251), length);
            check(ferriband_putget_put(putget, peer, DATA, DATA, length, NULL), "put");
            await(note);
            for (size_t at = 0; at < length; at++)
                if (data[at] != (unsigned char)(round % 251 + 1)) {
                    fprintf(stderr, "byte %zu of round %ld is %u\n", at, round, data[at]);
                    return 1;
                }
        } else {
            await(note);
            for (size_t at = 0; at < length; at++)
                data[at]++;
            int is_last = round + 1 == rounds;
            if (!is_last)
                check(ferriband_putget_notify(putget, DATA, FERRIBAND_PUTGET_INCOMING, note), "notify");
            check(ferriband_putget_put(putget, peer, DATA, DATA, length, is_last ? note + 1 : NULL), "put");
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (is_master)
        printf("%.2f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / rounds / 1e3);
    else
        /* the last put has to arrive before the connection ends */
        await(note + 1);
    ferriband_putget_close(putget);
    return 0;
}
