/* A stress program of papers/002 for its second driver: many messages over several connections
 * through several ports at once. Each side listens at PORTS ports, and each port is connected with
 * each of the other side. Over each connection go, at once: exchanges of puts, as in Fig. 6, of
 * many lengths about the crossover, in SLOTS buffers each way, and gets of both sides with
 * acknowledgements. Each byte is checked.
 *
 * putget_stress listen|ADDRESS:PORT,... PORTS ROUNDS */
#include <errno.h>
#include <ferriband_putget.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, SLOTS = 4, LONGEST = 9000, SOURCE = 2 * SLOTS, GOT, BYE, TAGS, NOTES = 1000 };

/* Notifications of a connection, behind those of its slots. */
enum { ANSWER = SLOTS, HEARD, SAID, EACH };

typedef ferriband_putget_notification_t note_t;

struct slot {
    unsigned char *in, *out;
    note_t *note;
    long round; /* of the message that is waited for */
    int owes;   /* an answer, or the next message, that found no room */
};

struct connection {
    ferriband_putget_t *port;
    ferriband_putget_peer_t peer;
    unsigned number;
    uint32_t here, there; /* first tag of this connection at both sides */
    struct slot slots[SLOTS];
    unsigned char *source, *got;
    note_t *notes;
    char bye[8];
    long gets;
    int is_getting;
};

static long rounds;
static int is_master;

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

/* What a message is: the same numbers at both sides. */
static unsigned mixed(unsigned number, int slot, int from_master, long round)
{
    unsigned long long mix = (number * 64u + (unsigned)slot) * 2u + (unsigned)from_master + 1;
    mix = (mix << 32 ^ (unsigned long long)round) * 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9ull;
    return (unsigned)(mix >> 33);
}

static size_t length_of(unsigned mix)
{
    switch (mix % 4) {
    case 0:
        return mix / 8 % 65;
    case 1:
        return 2000 + mix / 8 % 25; /* about the crossover */
    default:
        return mix / 8 % (LONGEST + 1);
    }
}

static unsigned char value(unsigned mix, size_t at)
{
    return (unsigned char)(mix + at * 7 + (at >> 8));
}

static void fill(unsigned char *data, size_t length, unsigned mix)
{
    for (size_t at = 0; at < length; at++)
        data[at] = value(mix, at);
}

static void expect(const unsigned char *data, const note_t *note, unsigned mix, const char *what)
{
    if (note->status != FERRIBAND_PUTGET_OK || note->length != length_of(mix)) {
        fprintf(stderr, "%s: status %u, %llu bytes\n", what, note->status, (unsigned long long)note->length);
        exit(1);
    }
    for (size_t at = 0; at < note->length; at++)
        if (data[at] != value(mix, at)) {
            fprintf(stderr, "%s: byte %zu of %llu\n", what, at, (unsigned long long)note->length);
            exit(1);
        }
}

static int has_fired(note_t *note)
{
    return (int)__atomic_load_n(&note->state, __ATOMIC_ACQUIRE);
}

/* Binds the notification of the next message; the master puts, the slave answers. */
static void await(struct connection *of, int slot)
{
    struct slot *its = &of->slots[slot];
    its->note->state = 0;
    check(ferriband_putget_notify(of->port, of->here + slot, FERRIBAND_PUTGET_INCOMING, its->note), "notify");
}

static void put(struct connection *of, int slot, long round)
{
    struct slot *its = &of->slots[slot];
    unsigned mix = mixed(of->number, slot, is_master, round);
    size_t length = length_of(mix);
    if (!its->owes)
        fill(its->out, length, mix);
    int error = ferriband_putget_put(of->port, of->peer, of->here + SLOTS + slot, of->there + slot, length, NULL);
    its->owes = error == EAGAIN;
    if (!its->owes)
        check(error, "put");
}

/* One step of a slot. Returns whether it has done with all of its rounds. */
static int step(struct connection *of, int slot)
{
    struct slot *its = &of->slots[slot];
    if (its->owes)
        put(of, slot, is_master ? its->round : its->round - 1);
    if (its->owes)
        return 0;
    if (its->round == rounds)
        return 1;
    if (!has_fired(its->note))
        return 0;
    expect(its->in, its->note, mixed(of->number, slot, !is_master, its->round), "put");
    its->round++;
    if (its->round < rounds)
        await(of, slot);
    /* the master's next message; the slave's answer to this one */
    if (!is_master)
        put(of, slot, its->round - 1);
    else if (its->round < rounds)
        put(of, slot, its->round);
    return 0;
}

/* Gets the first bytes of what the peer shows, again and again. */
static int get(struct connection *of)
{
    if (of->is_getting) {
        if (!has_fired(&of->notes[ANSWER]))
            return 0;
        unsigned mix = mixed(of->number, SLOTS, !is_master, 0), asked = mixed(of->number, SLOTS, is_master, of->gets);
        size_t length = length_of(asked);
        if (of->notes[ANSWER].status != FERRIBAND_PUTGET_OK || of->notes[ANSWER].length != length)
            exit(3);
        for (size_t at = 0; at < LONGEST; at++)
            if (of->got[at] != (at < length ? value(mix, at) : 0xee))
                exit(4);
        of->is_getting = 0;
        of->gets++;
    }
    if (of->gets == rounds)
        return 1;
    size_t length = length_of(mixed(of->number, SLOTS, is_master, of->gets));
    memset(of->got, 0xee, LONGEST);
    of->notes[ANSWER].state = 0;
    int error = ferriband_putget_get(of->port, of->peer, of->here + GOT, of->there + SOURCE, length,
                                     &of->notes[ANSWER]);
    if (error != EAGAIN) {
        check(error, "get");
        of->is_getting = 1;
    }
    return 0;
}

static void reg(ferriband_putget_t *port, void *memory, size_t length, uint32_t tag)
{
    check(ferriband_putget_register(port, memory, length, &tag), "register");
}

static void open_connection(struct connection *of, note_t *notes)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        struct slot *its = &of->slots[slot];
        its->in = calloc(1, LONGEST);
        its->out = calloc(1, LONGEST);
        its->note = notes + slot;
        reg(of->port, its->in, LONGEST, of->here + slot);
        reg(of->port, its->out, LONGEST, of->here + SLOTS + slot);
        await(of, slot);
    }
    of->source = malloc(LONGEST);
    of->got = malloc(LONGEST);
    of->notes = notes;
    fill(of->source, LONGEST, mixed(of->number, SLOTS, is_master, 0));
    reg(of->port, of->source, LONGEST, of->here + SOURCE);
    reg(of->port, of->bye, sizeof of->bye, of->here + BYE);
    check(ferriband_putget_notify(of->port, of->here + BYE, FERRIBAND_PUTGET_INCOMING, &notes[HEARD]), "notify");
    reg(of->port, of->got, LONGEST, of->here + GOT);
}

int main(int argc, char **argv)
{
    static struct connection connections[MOST * MOST];
    ferriband_putget_t *ports[MOST];
    note_t *notes[MOST];
    char text[64], *there[MOST] = {0};
    uint16_t port, number[MOST] = {0};
    if (argc != 4)
        return 2;
    int count = atoi(argv[2]);
    is_master = strcmp(argv[1], "listen") != 0;
    rounds = atol(argv[3]);
    if (count > MOST)
        return 2;
    for (int at = 0; at < count; at++) {
        check(ferriband_putget_open("127.0.0.1", 0, &ports[at]), "open");
        notes[at] = calloc((size_t)count * EACH, sizeof **notes);
        reg(ports[at], notes[at], (size_t)count * EACH * sizeof **notes, NOTES);
    }
    /* memory is there before the peer can name it */
    for (int at = 0; at < count * count; at++) {
        int master = at / count, slave = at % count, own = is_master ? master : slave;
        struct connection *of = &connections[at];
        of->port = ports[own];
        of->number = (unsigned)at;
        of->here = (uint32_t)(is_master ? slave : master) * TAGS;
        of->there = (uint32_t)(is_master ? master : slave) * TAGS;
        open_connection(of, notes[own] + (is_master ? slave : master) * EACH);
    }
    if (!is_master) {
        for (int at = 0; at < count; at++) {
            check(ferriband_putget_address(ports[at], text, sizeof text, &port), "address");
            printf("%s%s:%u", at ? "," : "", text, port);
        }
        printf("\n");
        fflush(stdout);
    }
    for (int at = 0; is_master && at < count; at++) {
        there[at] = strtok(at ? NULL : argv[1], ",");
        char *colon = there[at] ? strrchr(there[at], ':') : NULL;
        if (!colon)
            return 2;
        *colon = 0;
        number[at] = (uint16_t)atoi(colon + 1);
    }
    for (int at = 0; at < count * count; at++) {
        struct connection *of = &connections[at];
        if (is_master)
            check(ferriband_putget_connect(of->port, there[at % count], number[at % count], 60000, &of->peer), "connect");
        else
            check(ferriband_putget_accept(of->port, 60000, &of->peer), "accept");
    }
    for (int at = 0; is_master && at < count * count; at++)
        for (int slot = 0; slot < SLOTS; slot++)
            put(&connections[at], slot, 0);
    for (int left = 1; left;) {
        left = 0;
        for (int at = 0; at < count * count; at++) {
            for (int slot = 0; slot < SLOTS; slot++)
                left += !step(&connections[at], slot);
            left += !get(&connections[at]);
        }
        sched_yield();
    }
    /* who has done says so, and stays until the peer has done */
    for (int at = 0; at < count * count; at++) {
        struct connection *of = &connections[at];
        int error;
        while ((error = ferriband_putget_put(of->port, of->peer, of->here + BYE, of->there + BYE, 8,
                                             &of->notes[SAID])) == EAGAIN)
            sched_yield();
        check(error, "put");
    }
    for (int at = 0; at < count * count; at++)
        while (!has_fired(&connections[at].notes[HEARD]) || !has_fired(&connections[at].notes[SAID]))
            sched_yield();
    for (int at = 0; at < count; at++)
        ferriband_putget_close(ports[at]);
    return 0;
}
