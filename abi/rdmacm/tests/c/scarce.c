/*
 * A process whose system refuses it something: descriptors by their limit, and each system call that makes a resource, by a filter.
 * Each call of ours succeeds or fails with the system's own errno; nothing hangs or is lost, and when the limit is gone all works.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "rs.h"

extern char **environ;

/* What a call may fail with; 0: nothing. */
static int allowed;
/* The last call that failed with it. */
static const char *refused;

/* A call that makes something: true if it did. */
#define MADE(made)                                                                                        \
	({                                                                                                \
		errno = 0;                                                                                \
		int done = (made);                                                                        \
		if (!done) {                                                                              \
			if (!allowed || errno != allowed)                                                 \
				FAIL("%s: %s instead of %s", #made, strerror(errno), strerror(allowed));  \
			refused = #made;                                                                  \
		}                                                                                         \
		done;                                                                                     \
	})

/* An event that comes within the test's patience; a failure of a step before it has the system's errno as its status. */
static int came(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct pollfd poll_for = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	if (poll(&poll_for, 1, PATIENCE_MS) != 1)
		FAIL("%s never came", rdma_event_str(kind));
	if (rdma_get_cm_event(channel, &event)) {
		if (!allowed || errno != allowed)
			FAIL("rdma_get_cm_event: %s instead of %s", strerror(errno), strerror(allowed));
		return 0;
	}
	int is = event->event == kind, status = event->status;

	if (!is && (!allowed || status != -allowed))
		FAIL("%s with status %d instead of %s", rdma_event_str(event->event), status, rdma_event_str(kind));
	EQ(rdma_ack_cm_event(event), 0);
	return is;
}

static void verbs_objects(struct ibv_context *context)
{
	static char bytes[4096];
	struct ibv_comp_channel *channel = NULL;
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_qp *qp = NULL;

	MADE((channel = ibv_create_comp_channel(context)) != NULL);
	if (MADE((pd = ibv_alloc_pd(context)) != NULL) && MADE((cq = ibv_create_cq(context, 16, NULL, channel, 0)) != NULL)) {
		struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);

		attr.send_cq = attr.recv_cq = cq;
		MADE((mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE)) != NULL);
		if (MADE((qp = ibv_create_qp(pd, &attr)) != NULL)) {
			struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

			MADE((errno = ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) == 0);
		}
	}
	if (qp)
		EQ(ibv_destroy_qp(qp), 0);
	if (mr)
		EQ(ibv_dereg_mr(mr), 0);
	if (cq)
		EQ(ibv_destroy_cq(cq), 0);
	if (pd)
		EQ(ibv_dealloc_pd(pd), 0);
	if (channel)
		EQ(ibv_destroy_comp_channel(channel), 0);
}

static void verbs(void)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = NULL;
	int count = 0;

	if (!MADE((list = ibv_get_device_list(&count)) != NULL))
		return;
	if (count == 0)
		FAIL("the list of devices is empty%s", "");
	MADE((context = ibv_open_device(list[0])) != NULL);
	ibv_free_device_list(list);
	if (!context)
		return;
	struct ibv_port_attr port;
	union ibv_gid gid;

	/* An Ethernet port asks the kernel of its interface: with too few descriptors it says so, and not that it has no link. */
	if (MADE((errno = ibv_query_port(context, 1, &port)) == 0))
		EQ(port.state, IBV_PORT_ACTIVE);
	MADE(ibv_query_gid(context, 1, 0, &gid) == 0);
	verbs_objects(context);
	EQ(ibv_close_device(context), 0);
}

static void identifiers(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct rdma_event_channel *channel = NULL;
	struct rdma_cm_id *listening = NULL, *id = NULL, *alone = NULL;
	int count;
	struct ibv_context **devices = NULL;

	if (MADE((devices = rdma_get_devices(&count)) != NULL))
		rdma_free_devices(devices);
	if (MADE(rdma_create_id(NULL, &alone, NULL, RDMA_PS_TCP) == 0))
		EQ(rdma_destroy_id(alone), 0);
	if (!MADE((channel = rdma_create_event_channel()) != NULL))
		return;
	if (MADE(rdma_create_id(channel, &listening, NULL, RDMA_PS_TCP) == 0) && MADE(rdma_bind_addr(listening, (struct sockaddr *)&in) == 0) &&
	    MADE(rdma_listen(listening, 2) == 0) && MADE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0)) {
		in.sin_port = rdma_get_src_port(listening);
		struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);

		if (MADE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000) == 0) && came(channel, RDMA_CM_EVENT_ADDR_RESOLVED) &&
		    MADE(rdma_resolve_route(id, 2000) == 0) && came(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) &&
		    MADE(rdma_create_qp(id, NULL, &attr) == 0))
			rdma_destroy_qp(id);
	}
	if (id)
		EQ(rdma_destroy_id(id), 0);
	if (listening)
		EQ(rdma_destroy_id(listening), 0);
	rdma_destroy_event_channel(channel);
}

static void endpoint(void)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *found = NULL;
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct rdma_cm_id *id = NULL;

	if (!MADE(rdma_getaddrinfo("127.0.0.1", "0", &hints, &found) == 0))
		return;
	if (MADE(rdma_create_ep(&id, found, NULL, &attr) == 0)) {
		MADE(rdma_listen(id, 1) == 0);
		rdma_destroy_ep(id);
	}
	rdma_freeaddrinfo(found);
}

static void sockets(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	socklen_t length = sizeof(in);
	int listening = -1, near = -1, far = -1, datagrams = -1;
	char byte = 7;

	if (MADE((listening = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0) && MADE(rbind(listening, (struct sockaddr *)&in, length) == 0) &&
	    MADE(rlisten(listening, 2) == 0)) {
		EQ(rgetsockname(listening, (struct sockaddr *)&in, &length), 0);
		/* The connection may fail at either side; then the other one hears of it. */
		if (MADE((near = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0)) {
			int stands = rconnect(near, (struct sockaddr *)&in, length) == 0;

			if (!stands && !(allowed && (errno == allowed || errno == ECONNREFUSED || errno == ETIMEDOUT)))
				FAIL("rconnect: %s", strerror(errno));
			if (stands && MADE((far = raccept(listening, NULL, NULL)) >= 0)) {
				MADE(rsend(near, &byte, 1, 0) == 1);
				MADE(rrecv(far, &byte, 1, 0) == 1);
			}
		}
	}
	if (MADE((datagrams = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0)) {
		struct sockaddr_in any = address("127.0.0.1", 0);

		MADE(rbind(datagrams, (struct sockaddr *)&any, sizeof(any)) == 0);
	}
	int all[] = { far, near, listening, datagrams };

	for (int nth = 0; nth < 4; nth++)
		if (all[nth] >= 0)
			EQ(rclose(all[nth]), 0);
}

/* All of it; true if nothing was refused. */
static int life(void)
{
	refused = NULL;
	verbs();
	identifiers();
	endpoint();
	sockets();
	return refused == NULL;
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Says what each descriptor is, for a failure's message. */
static void tell_descriptors(const char *when)
{
	char path[64], target[256];

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof(target) - 1);

		if (length > 0)
			fprintf(stderr, "%s: %d is %.*s\n", when, fd, (int)length, target);
	}
}

static void limit_to(rlim_t most)
{
	struct rlimit limit;

	EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = most;
	EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* How many descriptors, from the lowest number on, are taken. */
static int first_free(void)
{
	int fd = dup(0);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

/* Fewer and fewer refusals, as more descriptors are there. */
static void few_descriptors(void)
{
	const char *wire = getenv("FERRIBAND_WIRE");
	int keeps = wire && !strcmp(wire, "roce");
	struct rlimit before;

	EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	EQ(life(), 1);
	EQ(life(), 1);
	for (int more = 0;; more++) {
		int held = descriptors();

		limit_to(first_free() + more);
		allowed = EMFILE;
		int all = life();

		allowed = 0;
		limit_to(before.rlim_cur);
		EQ(life(), 1);
		/* What the service of sockets closes goes a moment later, and a process beside this one may watch its life for as
		 * long as it lives; sockets of RoCE's flows are kept for others. */
		for (int wait = 0; !keeps && descriptors() > held && wait < 750; wait++)
			usleep(20000);
		if (!keeps && descriptors() > held) {
			tell_descriptors("after");
			FAIL("%d descriptors more than before, with %d free", descriptors() - held, more);
		}
		if (all)
			break;
		if (more > 300)
			FAIL("300 descriptors do not suffice: %s", refused);
	}
}

/* The first life of a process, with so many descriptors. */
static int first_life(int descriptors)
{
	struct rlimit before;

	EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit_to(descriptors);
	allowed = EMFILE;
	int all = life();

	allowed = 0;
	limit_to(before.rlim_cur);
	EQ(life(), 1);
	return all ? 10 : 0;
}

/* From here on the kernel answers a call of this number with this errno. */
static void refuse(int number, int error)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(steps) / sizeof(*steps), .filter = steps };

	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* A call that makes something, and what the system may say of it. */
static const struct {
	int number, error;
	const char *name;
} REFUSALS[] = {
	{ SYS_eventfd2, EMFILE, "eventfd" },      { SYS_eventfd2, ENFILE, "eventfd" },   { SYS_eventfd2, ENOMEM, "eventfd" },
	{ SYS_epoll_create1, EMFILE, "epoll" },   { SYS_epoll_create1, ENFILE, "epoll" }, { SYS_epoll_ctl, ENOSPC, "epoll_ctl" },
	{ SYS_memfd_create, ENFILE, "memfd" },    { SYS_memfd_create, EPERM, "memfd" },  { SYS_memfd_create, ENOMEM, "memfd" },
	/* Memory that a file in memory has not is memory. */
	{ SYS_fallocate, ENOSPC, "fallocate" },   { SYS_ftruncate, EPERM, "ftruncate" },
	{ SYS_socket, ENFILE, "socket" },         { SYS_socket, EACCES, "socket" },      { SYS_socket, ENOBUFS, "socket" },
	{ SYS_bind, EACCES, "bind" },             { SYS_bind, EPERM, "bind" },
	{ SYS_clone3, EAGAIN, "clone3" },         { SYS_clone3, EPERM, "clone3" },
};

static int with_refusal(int nth, int is_first)
{
	alarm(60);
	if (!is_first)
		EQ(life(), 1);
	refuse(REFUSALS[nth].number, REFUSALS[nth].error);
	allowed = REFUSALS[nth].number == SYS_fallocate ? ENOMEM : REFUSALS[nth].error;
	life();
	return 0;
}

/* Runs this program with a word and a number, and gives its status. */
static int run(char *self, const char *word, int number)
{
	char text[16];
	char *args[] = { self, (char *)word, text, NULL };
	pid_t pid;
	int status;

	snprintf(text, sizeof(text), "%d", number);
	EQ(posix_spawn(&pid, self, NULL, NULL, args, environ), 0);
	EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		FAIL("%s %d ended with %x", word, number, status);
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const int refusals = sizeof(REFUSALS) / sizeof(*REFUSALS);

	if (argc > 2) {
		int number = atoi(argv[2]);

		if (!strcmp(argv[1], "first"))
			return first_life(number);
		return with_refusal(number, !strcmp(argv[1], "refused"));
	}
	few_descriptors();
	int enough = 0;

	for (int descriptors = 3; !enough; descriptors++) {
		int status = run(argv[0], "first", descriptors);

		enough = status == 10;
		if (status && !enough)
			FAIL("with %d descriptors from its start it ended with %d", descriptors, status);
		CHECK(descriptors < 300);
	}
	int bad = 0;

	for (int nth = 0; nth < 2 * refusals; nth++) {
		const char *word = nth < refusals ? "refused" : "refused-later";
		int status = run(argv[0], word, nth % refusals);

		if (status) {
			fprintf(stderr, "%s: %s with %s\n", word, REFUSALS[nth % refusals].name, strerror(REFUSALS[nth % refusals].error));
			bad++;
		}
	}
	EQ(bad, 0);
	return 0;
}
