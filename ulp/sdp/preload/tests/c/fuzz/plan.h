/* What comes next in a sequence, drawn from its seed and from what the connection looks like by TCP. */
#ifndef PLAN_H
#define PLAN_H
#include "fuzz.h"

/* What the planner knows. */
struct plan {
    uint64_t state;
    uint32_t without;
    bool open[TABLES][SLOTS];
    bool nonblock[2], shut_read[2], finished[2], filled[2], limited[2], low[2], broken, handed;
    bool child;
    bool watched[TABLES][2][SLOTS];
    int busy[ACTORS];
};

/* Unread bytes beyond this are not sent: TCP and a ring have different room. */
enum { MOST = 40000 };

static uint64_t draw(struct plan *plan)
{
    plan->state ^= plan->state << 13;
    plan->state ^= plan->state >> 7;
    plan->state ^= plan->state << 17;
    return plan->state * 2685821657736338717u >> 16;
}

static int below(struct plan *plan, int limit)
{
    return (int)(draw(plan) % (uint64_t)limit);
}

static bool chance(struct plan *plan, int percent)
{
    return below(plan, 100) < percent;
}

static int unread(int end)
{
    return (int)(shared->sent[1 - end] - shared->received[end]);
}

/* Whether an end has no number left that reaches it. */
static bool is_gone(const struct plan *plan, int end)
{
    for (int table = 0; table < TABLES; table++)
        for (int slot = 0; slot < SOCKETS; slot++)
            if ((table == 1) == end && plan->open[table][slot])
                return false;
    return true;
}

static bool readable(const struct plan *plan, int end)
{
    return unread(end) > 0 || plan->shut_read[end] || plan->finished[1 - end] || plan->broken;
}

static int open_slot(struct plan *plan, int table)
{
    int slots[SOCKETS], count = 0;

    for (int slot = 0; slot < SOCKETS; slot++)
        if (plan->open[table][slot])
            slots[count++] = slot;
    return count == 0 ? -1 : slots[below(plan, count)];
}

static int length(struct plan *plan)
{
    static const int limits[] = {2, 20, 200, 200, 2000, 2000, 9000, 35000};

    return 1 + below(plan, limits[below(plan, 8)]);
}

static bool plan_send(struct plan *plan, struct step *step, int table, int slot)
{
    int end = table == 1, bytes = length(plan);

    if (bytes > MOST - unread(1 - end))
        bytes = MOST - unread(1 - end);
    /* what is sent to one that has ended both ways resets the connection as soon as the news of that is here */
    if (bytes <= 0 || plan->filled[end] || (plan->finished[1 - end] && plan->shut_read[1 - end]))
        return false;
    step->op = OP_send;
    step->args[0] = slot;
    step->args[1] = bytes;
    step->args[2] = below(plan, 100) < 90 ? below(plan, SENDFILE + 1) : below(plan, SENDS);
    if (step->args[2] == SPLICE_OUT && plan->without & 1u << SPLICE_OUT)
        step->args[2] = SEND;
    step->args[3] = (chance(plan, 40) ? DONTWAIT : 0) | (chance(plan, 50) ? NOSIGNAL : 0) | (chance(plan, 10) ? MORE : 0);
    if (step->args[2] != SEND && step->args[2] != SENDMSG && step->args[2] != SENDTO)
        step->args[3] = 0;
    return true;
}

static bool plan_recv(struct plan *plan, struct step *step, int table, int slot)
{
    int end = table == 1, bytes = chance(plan, 30) && unread(end) > 0 ? unread(end) : length(plan);
    bool waits = !plan->nonblock[end];

    if (plan->filled[1 - end])
        return false;
    step->op = OP_recv;
    step->args[0] = slot;
    step->args[1] = bytes;
    step->args[2] = chance(plan, 92) ? below(plan, SPLICE_IN) : below(plan, RECVS);
    if (step->args[2] == SPLICE_IN && plan->without & 1u << 8)
        step->args[2] = RECV;
    step->args[3] = (chance(plan, 50) ? DONTWAIT : 0) | (chance(plan, 8) ? PEEK : 0) | (chance(plan, 15) && unread(end) >= bytes ? WAITALL : 0);
    if (plan->without & 1u << 9)
        step->args[3] &= ~PEEK;
    if (step->args[2] == READ || step->args[2] == READV || step->args[2] == SPLICE_IN)
        step->args[3] = 0;
    if (step->args[2] == SPLICE_IN && step->args[1] > 60000)
        step->args[1] = 60000;
    if (step->args[2] == SPLICE_IN && plan->nonblock[end])
        step->args[3] = DONTWAIT;
    /* fewer bytes than SO_RCVLOWAT says do not end a call that waits */
    return !waits || step->args[3] & DONTWAIT || plan->limited[end] || (readable(plan, end) && !plan->low[end]);
}

static bool plan_numbers(struct plan *plan, struct step *step, int table, int slot)
{
    int to = below(plan, SOCKETS);

    step->args[0] = slot;
    switch (below(plan, 4)) {
    case 0:
        if (to == slot || (plan->handed && (plan->watched[table][0][to] || plan->watched[table][1][to])))
            return false;
        step->op = OP_dup;
        step->args[1] = to;
        step->args[2] = plan->open[table][to] ? 2 + below(plan, 2) : below(plan, 4);
        return true;
    case 1:
        if (plan->open[table][to] || !chance(plan, 20) || plan->without & 1u << 10)
            return false;
        step->op = OP_scm;
        step->args[1] = to;
        return true;
    case 2:
        step->op = OP_nonblock;
        step->args[1] = below(plan, 2);
        step->args[2] = below(plan, 2);
        return true;
    default: {
        int others = 0;

        for (int other = 0; other < SOCKETS; other++)
            others += other != slot && plan->open[table][other];
        /* what is registered by this number stays registered in the kernel, since another holds the socket */
        if (plan->handed && (plan->watched[table][0][slot] || plan->watched[table][1][slot]))
            return false;
        /* the last number goes seldom */
        if (others == 0 && !chance(plan, 12))
            return false;
        step->op = OP_close;
        step->args[1] = below(plan, 2);
        return true;
    }
    }
}

static bool plan_options(struct plan *plan, struct step *step, int slot)
{
    static const int set[] = {NODELAY, CORK, LOWAT, RCVTIMEO, SNDTIMEO, LINGER, RCVBUF, SNDBUF, KEEPALIVE};

    step->args[0] = slot;
    if (chance(plan, 60)) {
        step->op = OP_getopt;
        step->args[1] = below(plan, OPTIONS);
        return !(plan->without & 1u << 11) || step->args[1] != LOWAT;
    }
    step->op = OP_setopt;
    step->args[1] = set[below(plan, 9)];
    switch (step->args[1]) {
    case NODELAY:
    case CORK:
        /* what is held back is let go in the same step (do_smooth) */
        step->args[2] = below(plan, 2);
        break;
    case LOWAT:
        step->args[2] = 1 + below(plan, 100);
        return chance(plan, 20) && !(plan->without & 1u << 11);
    case LINGER:
        step->args[2] = below(plan, 2) - 1;
        return chance(plan, 40);
    case RCVBUF:
    case SNDBUF:
        step->args[2] = 200000 + below(plan, 100000);
        return chance(plan, 30);
    case RCVTIMEO:
        step->args[2] = below(plan, 3) * 4;
        return chance(plan, 30);
    default:
        step->args[2] = below(plan, 2);
    }
    return true;
}

static bool plan_epoll(struct plan *plan, struct step *step, int table, int slot)
{
    int instance = SOCKETS + below(plan, 2), which = instance - SOCKETS;
    static const uint32_t ways[] = {0, 0, EPOLLET, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};

    step->args[0] = instance;
    if (!plan->open[table][instance]) {
        step->op = OP_epoll;
        return true;
    }
    if (chance(plan, 3)) {
        step->op = OP_close;
        return true;
    }
    if (chance(plan, 55)) {
        step->op = OP_wait;
        step->args[1] = 16;
        step->args[2] = 0;
        step->args[3] = below(plan, 3);
        return true;
    }
    step->op = OP_ctl;
    step->args[1] = !plan->watched[table][which][slot] || chance(plan, 5) ? EPOLL_CTL_ADD : chance(plan, 80) ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    step->args[2] = slot;
    step->args[3] = (int)ways[below(plan, 6)];
    for (int bit = 0; bit < 4; bit++)
        if (chance(plan, 60))
            step->args[3] |= (int[]){EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLPRI}[bit];
    /* bytes are an edge to whoever wants to know of urgent ones, too, to the kernel */
    if (step->args[3] & (int)EPOLLET && step->args[3] & EPOLLPRI)
        step->args[3] |= EPOLLIN;
    if (chance(plan, 4))
        step->args[3] |= (int)EPOLLEXCLUSIVE;
    /* one instance in another, and itself; level-triggered, since an inner one may be told of in vain, and whoever leaves events in it is not told anew of each */
    if (chance(plan, 3)) {
        step->args[2] = SOCKETS + below(plan, 2);
        step->args[3] &= ~(int)(EPOLLET | EPOLLONESHOT);
    }
    return true;
}

static bool plan_look(struct plan *plan, struct step *step, int table, int slot)
{
    int mask = 1 << slot;

    switch (below(plan, 4)) {
    case 0:
        step->op = OP_ioctl;
        step->args[0] = slot;
        step->args[1] = below(plan, 2);
        return true;
    case 1:
        step->op = OP_select;
        step->args[1] = 1 + below(plan, 7);
        break;
    default:
        step->op = OP_poll;
        for (int bit = 0; bit < 4; bit++)
            if (chance(plan, 60))
                step->args[1] |= (int[]){POLLIN, POLLOUT, POLLRDHUP, POLLPRI}[bit];
    }
    /* beside it another number, an epoll instance, a slot of nothing (poll) */
    for (int other = 0; other < SLOTS; other++)
        if (chance(plan, 25) && (plan->open[table][other] || step->op == OP_poll))
            mask |= 1 << other;
    step->args[0] = mask;
    step->args[2] = chance(plan, 4) ? 2 : 0;
    step->args[3] = below(plan, 2);
    return true;
}

/* What is unread where receiving ends comes as a copy by TCP, which then resets the connection at once, and not with the next send or the close. */
static bool plan_shutdown(struct plan *plan, struct step *step, int table, int slot)
{
    step->op = OP_shutdown;
    step->args[0] = slot;
    step->args[1] = chance(plan, 70) ? SHUT_WR : below(plan, 3);
    return unread(table == 1) == 0 || (step->args[1] == SHUT_WR && !plan->shut_read[table == 1]);
}

/* A call that waits, which is begun before what ends it. */
static bool plan_begun(struct plan *plan, struct step *step, int table, int slot)
{
    int end = table == 1;

    if (table == 2 || readable(plan, end) || plan->low[end] || plan->filled[0] || plan->filled[1] || plan->finished[1 - end])
        return false;
    step->actor = (uint8_t)(table == 0 ? 3 : 4);
    step->begun = 1;
    switch (below(plan, 4)) {
    case 0:
        step->op = OP_poll;
        step->args[0] = 1 << slot;
        step->args[1] = POLLIN | (chance(plan, 30) ? POLLRDHUP : 0);
        step->args[2] = 2500;
        break;
    case 1:
        step->op = OP_select;
        step->args[0] = 1 << slot;
        step->args[1] = 1;
        step->args[2] = 2500;
        break;
    case 2:
        step->op = OP_wait;
        step->args[0] = SOCKETS + below(plan, 2);
        step->args[1] = 16;
        step->args[2] = 2500;
        if (!plan->open[table][step->args[0]] || (shared->registered[table][step->args[0] - SOCKETS][slot] & (EPOLLIN | EPOLLOUT)) != EPOLLIN || !plan->open[table][slot])
            return false;
        break;
    default:
        if (plan->nonblock[end] || plan->limited[end])
            return false;
        step->op = OP_recv;
        step->args[0] = slot;
        step->args[1] = length(plan);
        step->args[2] = below(plan, SPLICE_IN);
    }
    plan->busy[step->actor] = 1 + table;
    return true;
}

/* What ends such a call. */
static bool plan_answer(struct plan *plan, struct step *step, int table)
{
    int other = table == 0 ? 1 : 0, slot = open_slot(plan, other);

    if (slot < 0)
        return false;
    step->actor = (uint8_t)other;
    step->args[0] = slot;
    if (chance(plan, 85)) {
        bool sends = plan_send(plan, step, other, slot);

        if (step->args[2] == SPLICE_OUT)
            step->args[2] = SEND;
        return sends;
    }
    step->op = OP_shutdown;
    step->args[1] = SHUT_WR;
    return unread(other == 1) == 0 || !plan->shut_read[other == 1];
}

/* What a step has changed, by its result. */
static void learn(struct plan *plan, const struct step *step, const struct result *result)
{
    int table = table_of(step->actor), end = end_of(step->actor);

    switch (step->op) {
    case OP_fill:
        plan->filled[end] = true;
        break;
    case OP_drain:
        plan->filled[1 - end] = false;
        break;
    case OP_shutdown:
        plan->finished[end] |= result->value == 0 && step->args[1] != SHUT_RD;
        plan->shut_read[end] |= result->value == 0 && step->args[1] != SHUT_WR;
        break;
    case OP_close:
        plan->open[table][step->args[0]] = false;
        if (step->args[0] >= SOCKETS)
            memset(plan->watched[table][step->args[0] - SOCKETS], 0, sizeof plan->watched[0][0]);
        for (int which = 0; which < 2 && step->args[0] < SOCKETS; which++)
            plan->watched[table][which][step->args[0]] = false;
        break;
    case OP_dup:
    case OP_scm:
        plan->open[table][step->args[1]] |= result->value >= 0;
        plan->handed |= step->op == OP_scm;
        break;
    case OP_nonblock:
        plan->nonblock[end] = step->args[1];
        break;
    case OP_setopt:
        if (step->args[1] == RCVTIMEO && result->value == 0)
            plan->limited[end] = step->args[2] > 0;
        plan->low[end] |= step->args[1] == LOWAT;
        break;
    case OP_epoll:
        plan->open[table][step->args[0]] = true;
        break;
    case OP_ctl:
        if (result->value == 0)
            plan->watched[table][step->args[0] - SOCKETS][step->args[2]] = step->args[1] != EPOLL_CTL_DEL;
        break;
    case OP_fork:
        plan->child = true;
        for (int slot = 0; slot < SOCKETS; slot++)
            plan->open[2][slot] = plan->open[0][slot];
        break;
    case OP_reap:
        plan->child = false;
        memset(plan->open[2], 0, sizeof plan->open[2]);
        break;
    case OP_join:
        plan->busy[step->args[0]] = 0;
        break;
    case OP_recv:
    case OP_send:
        plan->broken |= result->value < 0 && (result->error == ECONNRESET || (result->error == EPIPE && !plan->finished[end]));
        break;
    }
    for (int which = 0; which < 2; which++)
        plan->finished[which] |= is_gone(plan, which);
}

/* The next step; false: there is nothing more to do. */
static bool next_step(struct plan *plan, struct step *step, int at, int last)
{
    for (int tries = 0; tries < 200; tries++) {
        int table, slot, waiting = plan->busy[3] ? 3 : plan->busy[4] ? 4 : 0;

        memset(step, 0, sizeof *step);
        if (waiting && (plan->busy[waiting] & 0x100)) {
            *step = (struct step){.op = OP_join, .args = {waiting}};
            return true;
        }
        if (waiting) {
            if (!plan_answer(plan, step, plan->busy[waiting] - 1))
                continue;
            plan->busy[waiting] |= 0x100;
            return true;
        }
        if (at >= last) {
            /* all that was sent is there, and then the end or nothing */
            int end = at == last ? 0 : 1;

            if (at > last + 1)
                return false;
            slot = open_slot(plan, end);
            if (slot < 0 || plan->filled[1 - end])
                *step = (struct step){.op = OP_getopt, .actor = (uint8_t)end, .args = {slot < 0 ? 0 : slot, TYPE}};
            else
                *step = (struct step){.op = OP_recv, .actor = (uint8_t)end, .args = {slot, 60000, RECV, DONTWAIT}};
            return true;
        }
        table = plan->child && chance(plan, 25) ? 2 : below(plan, 2);
        step->actor = (uint8_t)table;
        slot = open_slot(plan, table);
        /* the end of a process that leaves bytes unread resets no connection: its kernel has read them */
        if (table == 2 && (slot < 0 || chance(plan, 10)) && (open_slot(plan, 0) >= 0 || unread(0) == 0)) {
            *step = (struct step){.op = OP_reap};
            return true;
        }
        if (slot < 0)
            continue;
        if (plan->filled[0] || plan->filled[1]) {
            /* between the two what is sent and what TCP has room for are others in each run */
            int end = plan->filled[0] ? 1 : 0;

            slot = open_slot(plan, end);
            if (slot >= 0 && chance(plan, 40)) {
                *step = (struct step){.op = OP_drain, .actor = (uint8_t)end, .args = {slot}};
                return true;
            }
            if (plan_look(plan, step, table, open_slot(plan, table)) && (step->op == OP_poll || step->op == OP_select))
                return true;
            continue;
        }
        switch (below(plan, 32)) {
        case 0 ... 6:
            if (plan_send(plan, step, table, slot))
                return true;
            break;
        case 7 ... 13:
            if (plan_recv(plan, step, table, slot))
                return true;
            break;
        case 14 ... 20:
            if (plan_epoll(plan, step, table, slot))
                return true;
            break;
        case 21 ... 24:
            if (plan_look(plan, step, table, slot))
                return true;
            break;
        case 25 ... 26:
            if (plan_options(plan, step, slot))
                return true;
            break;
        case 27 ... 28:
            if (plan_begun(plan, step, table, slot))
                return true;
            plan->busy[3] = plan->busy[4] = 0;
            break;
        case 29:
            if (plan_numbers(plan, step, table, slot))
                return true;
            break;
        case 30:
            if (chance(plan, 30) && plan_shutdown(plan, step, table, slot))
                return true;
            if (chance(plan, 5) && !plan->finished[0] && !plan->finished[1] && !plan->broken && !plan->filled[0] && !plan->filled[1] &&
                !plan->shut_read[0] && !plan->shut_read[1] && table < 2) {
                step->op = OP_fill;
                step->args[0] = slot;
                return true;
            }
            break;
        default:
            if (table == 0 && !plan->child && chance(plan, 12)) {
                step->op = OP_fork;
                return true;
            }
            if (table < 2 && chance(plan, 4) && !plan->nonblock[table == 1] && !plan->filled[0] && !plan->filled[1]) {
                int end = table == 1;

                step->op = OP_exec;
                step->args[0] = slot;
                step->args[1] = below(plan, 2);
                step->args[2] = step->args[1] ? 1 + below(plan, 3000) : unread(end) > 0 ? 1 + below(plan, unread(end)) : 0;
                if (step->args[2] > 0 && (step->args[1] == 0 || (!plan->finished[end] && !plan->finished[1 - end] && unread(1 - end) < MOST)))
                    return true;
            }
        }
    }
    return false;
}
#endif
