/* The connection manager that goes with failing_verbs.c. */
#define _GNU_SOURCE
#include "failing.h"
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

static void *library;
#define REAL_OF(name, node) failing_real(&library, "librdmacm.so.1", #name, node)
#include "wrap.h"

CREATES("RDMACM_1.0", struct rdma_event_channel *, rdma_create_event_channel, (void), ())
ENDS_WELL("RDMACM_1.0", rdma_destroy_event_channel, (struct rdma_event_channel *channel), (channel))

/* An identifier lives from here, or from the event of a request. */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *tag, enum rdma_port_space space)
{
    int (*real)(struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space) =
        REAL_OF(rdma_create_id, "RDMACM_1.0");
    errno = ENOMEM;
    int returned = failing_now("rdma_create_id") ? -1 : real(channel, id, tag, space);
    failing_counts(returned ? 0 : 1);
    return returned;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    int (*real)(struct rdma_event_channel *, struct rdma_cm_event **) = REAL_OF(rdma_get_cm_event, "RDMACM_1.0");
    if (failing_has_news(channel->fd) && failing_now("rdma_get_cm_event")) {
        errno = ENOMEM;
        return -1;
    }
    int returned = real(channel, event);
    if (!returned)
        failing_counts((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 2 : 1);
    return returned;
}

/* It says that it has failed, and was done: an event that stays would let nobody destroy its
 * identifier. */
int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    int (*real)(struct rdma_cm_event *) = REAL_OF(rdma_ack_cm_event, "RDMACM_1.0");
    int returned = real(event);
    failing_counts(returned ? 0 : -1);
    errno = ENOMEM;
    return failing_now("rdma_ack_cm_event") ? -1 : returned;
}

ENDS("RDMACM_1.0", rdma_destroy_id, (struct rdma_cm_id *id), (id), -1)
NUMBER("RDMACM_1.0", rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *at), (id, at), -1)
NUMBER("RDMACM_1.0", rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog), -1)
NUMBER("RDMACM_1.0", rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int time),
       (id, from, to, time), -1)
NUMBER("RDMACM_1.0", rdma_resolve_route, (struct rdma_cm_id *id, int time), (id, time), -1)
NUMBER("RDMACM_1.0", rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *with), (id, with), -1)
NUMBER("RDMACM_1.0", rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *with), (id, with), -1)
NUMBER("RDMACM_1.0", rdma_reject, (struct rdma_cm_id *id, const void *data, uint8_t length), (id, data, length), -1)
NUMBER("RDMACM_1.0", rdma_disconnect, (struct rdma_cm_id *id), (id), -1)
NUMBER("RDMACM_1.0", rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event), (id, event), -1)
NUMBER("RDMACM_1.0", rdma_set_option, (struct rdma_cm_id *id, int level, int name, void *value, size_t length),
       (id, level, name, value, length), -1)
NUMBER("RDMACM_1.0", rdma_create_qp, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init),
       (id, pd, init), -1)
VOID("RDMACM_1.0", rdma_destroy_qp, (struct rdma_cm_id *id), (id))

struct ibv_context **rdma_get_devices(int *count)
{
    struct ibv_context **(*real)(int *) = REAL_OF(rdma_get_devices, "RDMACM_1.0");
    errno = ENOMEM;
    struct ibv_context **list = failing_now("rdma_get_devices") ? NULL : real(count);
    failing_counts(list ? 1 : 0);
    for (struct ibv_context **one = list; one && *one; one++)
        failing_watch(*one);
    return list;
}

ENDS_WELL("RDMACM_1.0", rdma_free_devices, (struct ibv_context **list), (list))
NUMBER("RDMACM_1.2", rdma_establish, (struct rdma_cm_id *id), (id), -1)
NUMBER("RDMACM_1.2", rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *to, int *mask), (id, to, mask), -1)
