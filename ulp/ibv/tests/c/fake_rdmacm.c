/*
 * A librdmacm that does nothing but write down who called what, and hands out the events that a test has put into it. It says what the
 * real one would suffer from: an identifier destroyed while an event names it or with its queue pair, a channel with identifiers.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MOST 64

struct held {
	struct rdma_cm_id id;
	unsigned number;
	int given; /* events that are not acknowledged */
};

struct given {
	struct rdma_cm_event event;
	struct held *counts_for;
	char data[200];
};

static char text[1 << 14];
static size_t used;
static struct held *ids[MOST];
static unsigned made, alive;
static struct given *waiting[MOST];
static unsigned first, last;
static int interrupted;
static struct ibv_context *context;
static struct rdma_event_channel *channel;

const char *fake_cm_log(void)
{
	static char answer[sizeof(text)];

	memcpy(answer, text, used + 1);
	used = 0;
	text[0] = 0;
	return answer;
}

static void told(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, list);
	va_end(list);
	used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
}

static int fails(int error)
{
	errno = error;
	return -1;
}

static struct held *of(const struct rdma_cm_id *id)
{
	return (struct held *)id;
}

/* An event of the identifier of this number, which may be gone. A request's identifier is new. */
void fake_cm_push(unsigned number, int kind, int status, const char *data)
{
	struct given *given = calloc(1, sizeof(*given));
	uint64_t one = 1;

	given->event.event = (enum rdma_cm_event_type)kind;
	given->event.status = status;
	given->event.id = &ids[number]->id;
	given->counts_for = ids[number];
	if (kind == 18) { /* USER: a number of the program's lies at the beginning of the union */
		*(uint64_t *)&given->event.param = 1;
		given->event.param.conn.private_data_len = 200;
	} else if (data) {
		snprintf(given->data, sizeof(given->data), "%s", data);
		given->event.param.conn.private_data = given->data;
		given->event.param.conn.private_data_len = (uint8_t)strlen(data);
		given->event.param.conn.qp_num = 77;
		given->event.param.conn.initiator_depth = 4;
	}
	waiting[last++ % MOST] = given;
	if (write(channel->fd, &one, sizeof(one)) < 0)
		abort();
}

/* The next call is interrupted by a signal. */
void fake_cm_interrupt(void)
{
	interrupted = 1;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	channel = calloc(1, sizeof(*channel));
	channel->fd = eventfd(0, EFD_SEMAPHORE);
	told("+channel");
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *at)
{
	told("-channel%s", alive ? " with identifiers" : "");
	close(at->fd);
	free(at);
}

static struct held *new_id(struct rdma_event_channel *at)
{
	struct held *held = calloc(1, sizeof(*held));

	held->id.channel = at;
	held->number = made;
	ids[made++] = held;
	alive++;
	return held;
}

int rdma_create_id(struct rdma_event_channel *at, struct rdma_cm_id **id, void *tag, enum rdma_port_space ps)
{
	(void)tag;
	if (ps != RDMA_PS_TCP)
		return fails(EINVAL);
	*id = &new_id(at)->id;
	told("+id %u", of(*id)->number);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct held *held = of(id);

	told("-id %u%s%s", held->number, held->given ? " with events" : "", id->qp ? " with its queue pair" : "");
	alive--;
	return 0; /* its memory stays: a test names it again */
}

int rdma_get_cm_event(struct rdma_event_channel *at, struct rdma_cm_event **event)
{
	uint64_t count;
	struct given *given;

	if (interrupted) {
		interrupted = 0;
		return fails(EINTR);
	}
	if (read(at->fd, &count, sizeof(count)) < 0)
		return -1;
	given = waiting[first++ % MOST];
	given->counts_for->given++;
	if (given->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		given->event.listen_id = given->event.id;
		given->event.id = &new_id(at)->id;
		told("+id %u", of(given->event.id)->number);
	}
	if (given->event.event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		int devices;

		if (!context)
			context = ibv_open_device(ibv_get_device_list(&devices)[0]);
		given->event.id->verbs = context;
	}
	*event = &given->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct given *given = (struct given *)event;

	told("ack %u %d", given->counts_for->number, event->event);
	given->counts_for->given--;
	free(given);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *to)
{
	told("bind %u family %d", of(id)->number, to->sa_family);
	return fails(EADDRINUSE);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	told("listen %u %d", of(id)->number, backlog);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	told("resolve %u from %d to %d in %d", of(id)->number, from ? from->sa_family : 0, to->sa_family, ms);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	told("route %u in %d", of(id)->number, ms);
	return 0;
}

static int param(const char *call, struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	told("%s %u qp %u data %u depth %u retries %u %u", call, of(id)->number, p->qp_num, p->private_data_len,
	     p->initiator_depth, p->retry_count, p->rnr_retry_count);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	return param("connect", id, p);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	return param("accept", id, p);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	told("reject %u %.*s", of(id)->number, length, (const char *)data);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	told("disconnect %u", of(id)->number);
	return 0;
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	told("notify %u %d", of(id)->number, event);
	return fails(EISCONN);
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	told("option %u %d.%d %d in %zu", of(id)->number, level, name, length == 1 ? *(uint8_t *)value : *(int *)value,
	     length);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (id->qp || pd->context != id->verbs)
		return fails(EINVAL);
	id->qp = ibv_create_qp(pd, attr);
	told("+qp of %u", of(id)->number);
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	told("-qp of %u", of(id)->number);
}

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = calloc(2, sizeof(*list));

	list[0] = context;
	*count = 1;
	told("+devices");
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	told("-devices");
	free(list);
}

#ifndef OLD
__asm__(".symver rdma_establish_now, rdma_establish@@RDMACM_1.2");
__asm__(".symver rdma_init_qp_attr_now, rdma_init_qp_attr@@RDMACM_1.2");

int rdma_establish_now(struct rdma_cm_id *id);
int rdma_init_qp_attr_now(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);

int rdma_establish_now(struct rdma_cm_id *id)
{
	told("establish %u", of(id)->number);
	return 0;
}

int rdma_init_qp_attr_now(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	told("attributes %u of %d", of(id)->number, attr->qp_state);
	*mask = IBV_QP_STATE | IBV_QP_PORT;
	return 0;
}
#endif
