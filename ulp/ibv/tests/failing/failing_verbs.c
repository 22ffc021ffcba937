/* A libibverbs that passes all calls on to another one, and fails one of them: for testing that
 * whoever uses verbs survives the failure of each call in turn. It also counts the requests that
 * are posted. FAILING_REAL names the directory of the library that does the work. Which call fails
 * says the program (failing.h) or the environment (plan.h).
 *
 * Calls that find nothing (no completion, no event) are not counted: how many there are is
 * chance. */
#define _GNU_SOURCE
#include "failing.h"
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

/* The call that fails, counted from 1; 0: none. Of which function; empty: of any. How many there
 * were. Which one has failed. */
static atomic_long victim, calls;
static char only[64];
/* Objects that were made and not taken back. */
static atomic_long alive;
static const char *_Atomic failed;
static atomic_long posted[16];
/* What is written from now on meets nobody. */
static atomic_int is_gone;

void failing_arm(long at, const char *name)
{
    atomic_store(&victim, 0);
    snprintf(only, sizeof only, "%s", name ? name : "");
    atomic_store(&failed, NULL);
    atomic_store(&calls, 0);
    atomic_store(&victim, at);
}

const char *failing_name(void)
{
    return atomic_load(&failed);
}

long failing_posted(unsigned opcode)
{
    return opcode < 16 ? atomic_load(&posted[opcode]) : 0;
}

#include "plan.h"

/* What the program has armed. */
static int is_armed(const char *name)
{
    if (!atomic_load(&victim) || (*only && strcmp(only, name)) || atomic_fetch_add(&calls, 1) + 1 != atomic_load(&victim))
        return 0;
    atomic_store(&failed, name);
    return 1;
}

/* A call of a function that the plan knows as `part`. */
static int fails(const char *name, const char *part)
{
    const struct planned *one = plan_fails(part);
    planned_errno = one ? one->how : 0;
    return one || is_armed(name);
}

int failing_now(const char *name)
{
    return fails(name, name);
}

int failing_returns(int usual)
{
    errno = planned_errno ? planned_errno : usual > 0 ? usual : ENOMEM;
    return usual < 0 ? usual : errno;
}

void failing_gone(void)
{
    atomic_store(&is_gone, 1);
}

void failing_counts(int change)
{
    atomic_fetch_add(&alive, change);
}

long failing_alive(void)
{
    return atomic_load(&alive);
}

int failing_has_news(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    return poll(&asked, 1, 0) > 0;
}

void *failing_real(void **library, const char *file, const char *name, const char *node)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char path[4096];
    pthread_mutex_lock(&lock);
    if (!*library) {
        const char *real = getenv("FAILING_REAL");
        snprintf(path, sizeof path, "%s/%s", real ? real : "", file);
        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!*library) {
            fprintf(stderr, "%s\n", dlerror());
            abort();
        }
    }
    pthread_mutex_unlock(&lock);
    void *found = dlvsym(*library, name, node);
    if (!found) {
        fprintf(stderr, "%s@%s: %s\n", name, node, dlerror());
        abort();
    }
    return found;
}

static void *library;
#define REAL_OF(name, node) failing_real(&library, "libibverbs.so.1", #name, node)
#include "wrap.h"

#ifdef FAILING_IS_OURS
/* By this name upper protocols know our own library. Nobody calls it. */
void ferriband_cm_create_id(void)
{
    abort();
}
#endif

/* What an open device does by itself, and instead. */
enum { MOST = 64 };
static struct device {
    struct ibv_context *context;
    struct ibv_context_ops ops;
    __typeof__(((struct verbs_context *)0)->query_device_ex) query_device_ex;
    __typeof__(((struct verbs_context *)0)->query_port) query_port;
    __typeof__(((struct verbs_context *)0)->advise_mr) advise_mr;
} devices[MOST];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static struct device *real_device(struct ibv_context *context)
{
    for (int at = 0; at < MOST; at++)
        if (devices[at].context == context)
            return &devices[at];
    abort();
}

static struct ibv_context_ops *real_ops(struct ibv_context *context)
{
    return &real_device(context)->ops;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (failing_now("ibv_post_send")) {
        *bad = wr;
        return failing_returns(ENOMEM);
    }
    for (struct ibv_send_wr *one = wr; one; one = one->next)
        if (one->opcode < 16)
            atomic_fetch_add(&posted[one->opcode], 1);
    return real_ops(qp->context)->post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (failing_now("ibv_post_recv")) {
        *bad = wr;
        return failing_returns(ENOMEM);
    }
    return real_ops(qp->context)->post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (failing_now("ibv_post_srq_recv")) {
        *bad = wr;
        return failing_returns(ENOMEM);
    }
    return real_ops(srq->context)->post_srq_recv(srq, wr, bad);
}

/* Queue pairs, for completions that fail: whether one of its sends has, and one of its receives.
 * Those of the connection manager are not among them. */
enum { MOST_QPS = 4096 };
static struct known {
    struct ibv_qp *_Atomic qp;
    atomic_int has_failed[2];
} known[MOST_QPS];
/* Of all of them. */
static atomic_int has_any_failed;

static struct known *known_qp(struct ibv_qp *qp)
{
    for (struct known *one = known; one < known + MOST_QPS; one++)
        if (atomic_load(&one->qp) == qp)
            return one;
    return NULL;
}

static void begin_anew(struct known *its)
{
    atomic_store(&its->has_failed[0], 0);
    atomic_store(&its->has_failed[1], 0);
}

/* A completion becomes one of this status, and its queue pair fails, as an adapter has it: what
 * that completes behind it is flushed. What the request was for may have been done all the same: an
 * adapter that loses the acknowledgement does not know. */
static void fail_completion(struct ibv_wc *wc, const struct planned *planned)
{
    static int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    int is_receive = (wc->opcode & IBV_WC_RECV) != 0;
    if (!planned && !atomic_load(&has_any_failed))
        return;
    if (!modify)
        modify = REAL_OF(ibv_modify_qp, "IBVERBS_1.1");
    for (struct known *one = known; one < known + MOST_QPS; one++) {
        struct ibv_qp *qp = atomic_load(&one->qp);
        if (!qp || qp->qp_num != wc->qp_num)
            continue;
        if (atomic_load(&one->has_failed[is_receive])) {
            wc->status = IBV_WC_WR_FLUSH_ERR;
        } else if (planned) {
            wc->status = planned->how;
            atomic_store(&has_any_failed, 1);
            atomic_store(&one->has_failed[is_receive], 1);
            modify(qp, &to, IBV_QP_STATE);
        }
    }
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int found = real_ops(cq->context)->poll_cq(cq, count, wc);
    for (int at = 0; at < found; at++) {
        if (wc[at].status != IBV_WC_SUCCESS)
            continue;
        if (atomic_load(&is_gone) && wc[at].opcode == IBV_WC_RDMA_WRITE)
            wc[at].status = IBV_WC_RETRY_EXC_ERR;
        fail_completion(&wc[at], plan_fails("completion"));
    }
    return found > 0 && failing_now("ibv_poll_cq") ? failing_returns(-1) : found;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    if (failing_now("ibv_req_notify_cq"))
        return failing_returns(ENOMEM);
    return real_ops(cq->context)->req_notify_cq(cq, solicited);
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *to, size_t size)
{
    if (failing_now("ibv_query_device_ex"))
        return failing_returns(ENOMEM);
    return real_device(context)->query_device_ex(context, input, to, size);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *to, size_t size)
{
    if (failing_now("ibv_query_port"))
        return failing_returns(ENOMEM);
    return real_device(context)->query_port(context, port, to, size);
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
                     uint32_t count)
{
    if (failing_now("ibv_advise_mr"))
        return failing_returns(ENOMEM);
    return real_device(pd->context)->advise_mr(pd, advice, flags, list, count);
}

/* The extended operations that are counted; a device that has not one of them goes without. */
static void watch_extended(struct ibv_context *context, struct device *its)
{
#define WATCH(op)                                                                                                      \
    do {                                                                                                               \
        struct verbs_context *table = verbs_get_ctx_op(context, op);                                                   \
        its->op = table ? table->op : NULL;                                                                            \
        if (table)                                                                                                     \
            table->op = op;                                                                                            \
    } while (0)
    WATCH(query_device_ex);
    WATCH(query_port);
    WATCH(advise_mr);
}

/* From here on the device's own operations are counted, too. */
void failing_watch(struct ibv_context *context)
{
    pthread_mutex_lock(&opening);
    struct device *free = NULL, *known = NULL;
    for (int at = MOST - 1; at >= 0; at--) {
        if (devices[at].context == context)
            known = &devices[at];
        if (!devices[at].context)
            free = &devices[at];
    }
    if (context->ops.post_send != post_send) {
        struct device *its = known ? known : free;
        if (!its)
            abort();
        its->ops = context->ops;
        its->context = context;
        watch_extended(context, its);
        context->ops.post_send = post_send;
        context->ops.post_recv = post_recv;
        context->ops.post_srq_recv = post_srq_recv;
        context->ops.poll_cq = poll_cq;
        context->ops.req_notify_cq = req_notify_cq;
    }
    pthread_mutex_unlock(&opening);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*real)(struct ibv_device *) = REAL_OF(ibv_open_device, "IBVERBS_1.1");
    if (failing_now("ibv_open_device")) {
        failing_returns(-1);
        return NULL;
    }
    struct ibv_context *context = real(device);
    if (context) {
        failing_counts(1);
        failing_watch(context);
    }
    return context;
}

CREATES("IBVERBS_1.1", struct ibv_device **, ibv_get_device_list, (int *count), (count))
ENDS_WELL("IBVERBS_1.1", ibv_free_device_list, (struct ibv_device **list), (list))
CALL("IBVERBS_1.1", const char *, ibv_get_device_name, (struct ibv_device *device), (device))
CALL("IBVERBS_1.1", __be64, ibv_get_device_guid, (struct ibv_device *device), (device))
ENDS("IBVERBS_1.1", ibv_close_device, (struct ibv_context *of), (of), -1)
NUMBER("IBVERBS_1.1", ibv_query_device, (struct ibv_context *of, struct ibv_device_attr *to), (of, to), ENOMEM)
NUMBER("IBVERBS_1.1", ibv_query_port, (struct ibv_context *of, uint8_t port, struct _compat_ibv_port_attr *to),
       (of, port, to), ENOMEM)
NUMBER("IBVERBS_1.1", ibv_query_gid, (struct ibv_context *of, uint8_t port, int at, union ibv_gid *to),
       (of, port, at, to), -1)
NUMBER("IBVERBS_1.1", ibv_query_pkey, (struct ibv_context *of, uint8_t port, int at, __be16 *to), (of, port, at, to),
       -1)
VOID("IBVERBS_1.1", ibv_ack_async_event, (struct ibv_async_event *event), (event))
CREATES("IBVERBS_1.1", struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *of), (of))
ENDS("IBVERBS_1.1", ibv_dealloc_pd, (struct ibv_pd *pd), (pd), EBUSY)
CREATES("IBVERBS_1.1", struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *at, size_t length, int access),
        (pd, at, length, access))
CREATES("IBVERBS_1.8", struct ibv_mr *, ibv_reg_mr_iova2,
        (struct ibv_pd *pd, void *at, size_t length, uint64_t iova, unsigned int access), (pd, at, length, iova, access))
ENDS("IBVERBS_1.1", ibv_dereg_mr, (struct ibv_mr *mr), (mr), EBUSY)
CREATES("IBVERBS_1.0", struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *of), (of))
ENDS("IBVERBS_1.0", ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel), EBUSY)
CREATES("IBVERBS_1.1", struct ibv_cq *, ibv_create_cq,
        (struct ibv_context *of, int count, void *tag, struct ibv_comp_channel *channel, int vector),
        (of, count, tag, channel, vector))
ENDS("IBVERBS_1.1", ibv_destroy_cq, (struct ibv_cq *cq), (cq), EBUSY)
VOID("IBVERBS_1.1", ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int count), (cq, count))
CREATES("IBVERBS_1.1", struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *init), (pd, init))
NUMBER("IBVERBS_1.1", ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *to, int mask), (srq, to, mask), ENOMEM)
NUMBER("IBVERBS_1.1", ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *to), (srq, to), ENOMEM)
ENDS("IBVERBS_1.1", ibv_destroy_srq, (struct ibv_srq *srq), (srq), EBUSY)
NUMBER("IBVERBS_1.1", ibv_query_qp,
       (struct ibv_qp *qp, struct ibv_qp_attr *to, int mask, struct ibv_qp_init_attr *init), (qp, to, mask, init), ENOMEM)

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) = REAL_OF(ibv_create_qp, "IBVERBS_1.1");
    if (failing_now("ibv_create_qp")) {
        failing_returns(-1);
        return NULL;
    }
    struct ibv_qp *qp = real(pd, init), *none = NULL;
    failing_counts(qp ? 1 : 0);
    for (struct known *one = known; qp; one++, none = NULL) {
        if (one == known + MOST_QPS)
            abort();
        if (!atomic_compare_exchange_strong(&one->qp, &none, qp))
            continue;
        begin_anew(one);
        break;
    }
    return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask)
{
    static const char *const TO[] = {"ibv_modify_qp/RESET", "ibv_modify_qp/INIT", "ibv_modify_qp/RTR", "ibv_modify_qp/RTS",
                                     "ibv_modify_qp/SQD",   "ibv_modify_qp/SQE",  "ibv_modify_qp/ERR"};
    int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int) = REAL_OF(ibv_modify_qp, "IBVERBS_1.1");
    int is_state = mask & IBV_QP_STATE && (size_t)to->qp_state < sizeof TO / sizeof *TO;
    if (fails("ibv_modify_qp", is_state ? TO[to->qp_state] : "ibv_modify_qp"))
        return failing_returns(ENOMEM);
    int returned = real(qp, to, mask);
    struct known *its = !returned && is_state && to->qp_state == IBV_QPS_RESET ? known_qp(qp) : NULL;
    if (its)
        begin_anew(its);
    return returned;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*real)(struct ibv_qp *) = REAL_OF(ibv_destroy_qp, "IBVERBS_1.1");
    if (failing_now("ibv_destroy_qp"))
        return failing_returns(EBUSY);
    /* before it is destroyed: another may be made in its place */
    struct known *its = known_qp(qp);
    if (its)
        atomic_store(&its->qp, NULL);
    int returned = real(qp);
    failing_counts(returned ? 0 : -1);
    if (returned && its)
        atomic_store(&its->qp, qp);
    return returned;
}

CREATES("IBVERBS_1.1", struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *to), (pd, to))
ENDS("IBVERBS_1.1", ibv_destroy_ah, (struct ibv_ah *ah), (ah), EBUSY)
NUMBER("IBVERBS_1.1", ibv_fork_init, (void), (), ENOSYS)
CALL("IBVERBS_1.14", int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags),
     (qp, opcode, flags))
EVENT("IBVERBS_1.1", ibv_get_async_event, (struct ibv_context *of, struct ibv_async_event *event), (of, event),
      of->async_fd)
EVENT("IBVERBS_1.1", ibv_get_cq_event, (struct ibv_comp_channel *of, struct ibv_cq **cq, void **tag), (of, cq, tag),
      of->fd)
