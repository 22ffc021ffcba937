/* A stress program of papers/002 for its first driver: many messages over several channels through
 * several ports at once. Each side listens at PORTS ports and has CHANNELS channels at each. A
 * thread for each channel writes and reads MESSAGES messages of many lengths, several at a time,
 * and checks each byte. Requests take 4,096 bytes, so longer messages are several.
 *
 * matching_stress listen|ADDRESS:PORT,... PORTS CHANNELS MESSAGES */
#include <errno.h>
#include <ferriband_putget.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, WINDOW = 6, LONGEST = 20000, REQUEST = 4096 };

struct slot {
    ferriband_transfer_t transfer;
    unsigned char *data;
};

struct flow {
    ferriband_channels_t *channels;
    ferriband_channel_t channel;
    pthread_t thread;
    unsigned number; /* of the channel */
    int is_master;
    long messages;
};

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

/* What a message of a direction of a channel is: the same numbers at both sides. */
static unsigned mixed(unsigned number, int from_master, long message)
{
    unsigned long long mix = number * 2u + (unsigned)from_master + 1;
    mix = (mix << 32 ^ (unsigned long long)message) * 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9ull;
    return (unsigned)(mix >> 33);
}

static size_t length_of(unsigned mix)
{
    switch (mix % 5) {
    case 0:
        return mix / 8 % 65;
    case 1:
        return REQUEST - 1 + mix / 8 % 3; /* about a request */
    case 2:
        return 2 * REQUEST - 1 + mix / 8 % 3;
    default:
        return mix / 8 % (LONGEST + 1);
    }
}

static void fill(unsigned char *data, size_t length, unsigned mix)
{
    for (size_t at = 0; at < length; at++)
        data[at] = (unsigned char)(mix + at * 7 + (at >> 8));
}

static void begin_write(struct flow *flow, struct slot *slot, long message)
{
    unsigned mix = mixed(flow->number, flow->is_master, message);
    fill(slot->data, length_of(mix), mix);
    check(ferriband_channels_start_write(flow->channels, flow->channel, slot->data, length_of(mix), &slot->transfer),
          "start_write");
}

/* Reads have room for the message, or for the longest. */
static void begin_read(struct flow *flow, struct slot *slot, long message)
{
    unsigned mix = mixed(flow->number, !flow->is_master, message);
    size_t room = mix >> 7 & 1 ? length_of(mix) : LONGEST;
    memset(slot->data, 0xee, LONGEST);
    check(ferriband_channels_start_read(flow->channels, flow->channel, slot->data, room, &slot->transfer),
          "start_read");
}

static void end_read(struct flow *flow, struct slot *slot, long message)
{
    unsigned mix = mixed(flow->number, !flow->is_master, message);
    size_t length = length_of(mix), received;
    check(ferriband_channels_wait(flow->channels, slot->transfer, -1, &received), "wait");
    if (received != length) {
        fprintf(stderr, "channel %u message %ld: %zu of %zu bytes\n", flow->number, message, received, length);
        exit(1);
    }
    for (size_t at = 0; at < LONGEST; at++) {
        unsigned char value = at < length ? (unsigned char)(mix + at * 7 + (at >> 8)) : 0xee;
        if (slot->data[at] != value) {
            fprintf(stderr, "channel %u message %ld: byte %zu\n", flow->number, message, at);
            exit(1);
        }
    }
}

static void *run(void *argument)
{
    struct flow *flow = argument;
    struct slot in[WINDOW], out[WINDOW];
    unsigned char *memory = malloc(2 * WINDOW * LONGEST);
    check(ferriband_channels_pin(flow->channels, memory, 2 * WINDOW * LONGEST), "pin");
    for (int at = 0; at < WINDOW; at++) {
        in[at].data = memory + 2 * at * LONGEST;
        out[at].data = in[at].data + LONGEST;
    }
    long ahead = flow->messages < WINDOW ? flow->messages : WINDOW;
    for (long message = 0; message < ahead; message++) {
        begin_read(flow, &in[message], message);
        begin_write(flow, &out[message], message);
    }
    for (long message = 0; message < flow->messages; message++) {
        struct slot *read = &in[message % WINDOW], *write = &out[message % WINDOW];
        int error;
        end_read(flow, read, message);
        if (message + WINDOW < flow->messages)
            begin_read(flow, read, message + WINDOW);
        /* each test of completion is used */
        while ((error = ferriband_channels_test(flow->channels, write->transfer, NULL)) == EINPROGRESS)
            if ((error = ferriband_channels_wait(flow->channels, write->transfer, 1, NULL)) != ETIMEDOUT)
                break;
        check(error, "test of a write");
        if (message + WINDOW < flow->messages)
            begin_write(flow, write, message + WINDOW);
    }
    check(ferriband_channels_unpin(flow->channels, memory), "unpin");
    free(memory);
    return NULL;
}

int main(int argc, char **argv)
{
    ferriband_channels_t *ports[MOST];
    static struct flow flows[MOST * MOST];
    char text[64];
    uint16_t port;
    if (argc != 5)
        return 2;
    int count = atoi(argv[2]), each = atoi(argv[3]), is_master = strcmp(argv[1], "listen") != 0;
    if (count > MOST || each > MOST)
        return 2;
    for (int at = 0; at < count; at++) {
        check(ferriband_channels_open("127.0.0.1", 0, &ports[at]), "open");
        check(ferriband_channels_set_request_bytes(ports[at], REQUEST), "set_request_bytes");
        check(ferriband_channels_address(ports[at], text, sizeof text, &port), "address");
        if (!is_master)
            printf("%s%s:%u", at ? "," : "", text, port);
    }
    if (!is_master) {
        printf("\n");
        fflush(stdout);
    }
    char *there = is_master ? strtok(argv[1], ",") : NULL;
    for (int at = 0; at < count; at++) {
        char *colon = there ? strrchr(there, ':') : NULL;
        if (is_master && !colon)
            return 2;
        if (colon)
            *colon = 0;
        for (int more = 0; more < each; more++) {
            struct flow *flow = &flows[at * each + more];
            *flow = (struct flow){ports[at], 0, 0, (unsigned)(at * each + more), is_master, atol(argv[4])};
            if (is_master)
                check(ferriband_channels_connect(ports[at], there, atoi(colon + 1), 60000, &flow->channel), "connect");
            else
                check(ferriband_channels_accept(ports[at], 60000, &flow->channel), "accept");
        }
        there = is_master ? strtok(NULL, ",") : NULL;
    }
    for (int at = 0; at < count * each; at++)
        check(pthread_create(&flows[at].thread, NULL, run, &flows[at]), "pthread_create");
    for (int at = 0; at < count * each; at++)
        pthread_join(flows[at].thread, NULL);
    for (int at = 0; at < count; at++)
        ferriband_channels_close(ports[at]);
    return 0;
}
