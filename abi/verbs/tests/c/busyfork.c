/*
 * Children of a process whose other threads are inside the library at the fork: they never hang, what they inherited refuses with
 * EIO, and what they make for themselves works. Forks in many threads at once, children of children, ends by exit, a fork beside
 * the first call of all, and programs that are only executed.
 */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static struct ibv_device *device;
static struct side a, b;
static volatile int stop;
static long rounds;

static void joined(struct ibv_context *on, struct side *one, struct side *other)
{
	connect_qp(on, one->qp, IBV_QPT_RC, other->qp->qp_num);
	connect_qp(on, other->qp, IBV_QPT_RC, one->qp->qp_num);
}

static void exchange(struct side *from, struct side *to, unsigned char value)
{
	struct ibv_sge sge = part(from, 0, 4096);
	struct ibv_send_wr wr = { .wr_id = value, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };

	memset(from->bytes, value, 4096);
	post_recv(to, value, 0, 4096);
	EQ(post(from->qp, &wr), 0);
	expect(from->cq, value, IBV_WC_SUCCESS);
	expect(to->cq, value, IBV_WC_SUCCESS);
	EQ(to->bytes[4095], value);
}

/* Opens, makes, talks and gives back: each time another part of the library. */
static void *makes(void *unused)
{
	for (unsigned round = 0; !stop; round++) {
		struct ibv_context *own = open_first();
		struct ibv_pd *domain = ibv_alloc_pd(own);

		CHECK(domain);
		struct side one = make_side(own, domain, IBV_QPT_RC), other = make_side(own, domain, IBV_QPT_RC);

		if (round & 1) {
			joined(own, &one, &other);
			exchange(&one, &other, (unsigned char)round);
		}
		drop_side(&one);
		drop_side(&other);
		EQ(ibv_dealloc_pd(domain), 0);
		EQ(ibv_close_device(own), 0);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

/* Asks and registers on what the children inherit. */
static void *asks(void *unused)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	char *bytes = malloc(65536);

	while (!stop) {
		EQ(ibv_query_device(context, &attr), 0);
		EQ(ibv_query_port(context, 1, &port), 0);
		EQ(ibv_query_gid(context, 1, 0, &gid), 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 65536, IBV_ACCESS_LOCAL_WRITE);

		CHECK(mr);
		EQ(ibv_dereg_mr(mr), 0);
		struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0);

		CHECK(cq);
		EQ(ibv_req_notify_cq(cq, 0), 0);
		EQ(ibv_destroy_cq(cq), 0);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	free(bytes);
	return unused;
}

/* Talks on what the children inherit. */
static void *talks(void *unused)
{
	for (unsigned char value = 1; !stop; value++) {
		exchange(&a, &b, value);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

/* Every kind of call on what is the parent's. */
static void inherited_refuses(void)
{
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_recv_wr recv = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init = { .send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq_attr srq_attr;
	struct ibv_device_attr device_attr;
	struct ibv_port_attr port;
	struct ibv_async_event event;
	struct ibv_ah_attr ah_attr = { .port_num = 1, .dlid = 1 };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	union ibv_gid gid;
	void *cookie;

	EQ(ibv_post_send(a.qp, &wr, &bad), EIO);
	EQ(ibv_post_recv(a.qp, &recv, &bad_recv), EIO);
	EQ(ibv_post_srq_recv(srq, &recv, &bad_recv), EIO);
	EQ(ibv_poll_cq(a.cq, 1, &wc), -EIO);
	EQ(ibv_req_notify_cq(a.cq, 0), EIO);
	EQ(ibv_resize_cq(a.cq, 100), EIO);
	EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EIO);
	EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), EIO);
	init.send_cq = init.recv_cq = a.cq;
	init.qp_type = IBV_QPT_RC;
	EQ(ibv_query_srq(srq, &srq_attr), EIO);
	EQ(ibv_query_device(context, &device_attr), EIO);
	EQ(ibv_query_port(context, 1, &port), EIO);
	EQ(ibv_query_gid(context, 1, 0, &gid), -1);
	EQ(errno, EIO);
	EQ(ibv_get_cq_event(channel, &cq, &cookie), -1);
	EQ(errno, EIO);
	EQ(ibv_get_async_event(context, &event), -1);
	EQ(errno, EIO);
	REFUSED(ibv_alloc_pd(context), EIO);
	REFUSED(ibv_reg_mr(pd, a.bytes, 8, 0), EIO);
	REFUSED(ibv_create_cq(context, 1, NULL, NULL, 0), EIO);
	REFUSED(ibv_create_comp_channel(context), EIO);
	REFUSED(ibv_create_qp(pd, &init), EIO);
	REFUSED(ibv_create_srq(pd, &srq_init), EIO);
	REFUSED(ibv_create_ah(pd, &ah_attr), EIO);
	REFUSED(ibv_alloc_mw(pd, IBV_MW_TYPE_1), EIO);
	EQ(ibv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), -1);
	EQ(errno, EIO);
	ibv_ack_cq_events(a.cq, 1);
	/* Giving back does nothing, as often as it is tried. */
	for (int again = 0; again < 2; again++) {
		EQ(ibv_dealloc_mw(mw), EIO);
		EQ(ibv_destroy_ah(ah), EIO);
		EQ(ibv_destroy_qp(a.qp), EIO);
		EQ(ibv_destroy_srq(srq), EIO);
		EQ(ibv_dereg_mr(a.mr), EIO);
		EQ(ibv_destroy_cq(a.cq), EIO);
		EQ(ibv_destroy_comp_channel(channel), EIO);
		EQ(ibv_dealloc_pd(pd), EIO);
		EQ(ibv_close_device(context), EIO);
	}
}

/* By the pointer that the parent had of the list, or by a list of its own. */
static void own_life(int by_pointer, unsigned char value)
{
	struct ibv_context *own = by_pointer ? ibv_open_device(device) : open_first();

	CHECK(own);
	struct ibv_pd *domain = ibv_alloc_pd(own);

	CHECK(domain);
	struct side one = make_side(own, domain, IBV_QPT_RC), other = make_side(own, domain, IBV_QPT_RC);

	joined(own, &one, &other);
	exchange(&one, &other, value);
	drop_side(&one);
	drop_side(&other);
	EQ(ibv_dealloc_pd(domain), 0);
	EQ(ibv_close_device(own), 0);
}

static void reap(pid_t pid, const char *what)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		FAIL("%s hung", what);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s ended with %x", what, status);
}

static void child(int nth)
{
	alarm(30);
	if (nth % 3 != 1)
		inherited_refuses();
	if (nth % 4 != 3)
		own_life(nth & 1, (unsigned char)nth);
	if (nth % 5 == 0) {
		/* A child of the child: its own objects are the child's no more. */
		struct ibv_context *own = open_first();
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			alarm(30);
			EQ(ibv_close_device(own), EIO);
			own_life(1, 99);
			exit(0);
		}
		reap(pid, "a child's child");
		EQ(ibv_close_device(own), 0);
	}
	/* exit runs the libraries' destructors. */
	if (nth & 1)
		exit(0);
	_exit(0);
}

static void *forks(void *many)
{
	for (int nth = 0; nth < (int)(long)many; nth++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			child(nth);
		reap(pid, "a child");
	}
	return NULL;
}

/* What executes another program, and never calls the library in between. */
static void executes(void)
{
	char *args[] = { "true", NULL };

	for (int nth = 0; nth < 10; nth++) {
		pid_t pid = -1;

		EQ(system("true"), 0);
		EQ(posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ), 0);
		reap(pid, "a spawned program");
		pid = vfork();
		if (pid == 0) {
			execv("/bin/true", args);
			_exit(127);
		}
		reap(pid, "a program after vfork");
		FILE *stream = popen("echo yes", "r");
		char line[8];

		CHECK(stream && fgets(line, sizeof line, stream));
		EQ(pclose(stream), 0);
	}
}

static void *first(void *unused)
{
	open_first();
	return unused;
}

/* The first calls of a process, beside a fork: a program of its own each time. */
static int first_call(int delay)
{
	pthread_t thread;

	EQ(pthread_create(&thread, NULL, first, NULL), 0);
	for (volatile int spin = 0; spin < delay; spin++)
		;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(30);
		own_life(0, 5);
		exit(0);
	}
	reap(pid, "a child beside the first call");
	EQ(pthread_join(thread, NULL), 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return first_call(atoi(argv[1]));
	for (int round = 0; round < 40; round++) {
		char delay[16];
		char *args[] = { argv[0], delay, NULL };
		pid_t pid;

		snprintf(delay, sizeof delay, "%d", round * round * 3000);
		EQ(posix_spawn(&pid, argv[0], NULL, NULL, args, environ), 0);
		reap(pid, "a program that forks beside its first call");
	}

	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	device = list[0];
	ibv_free_device_list(list);
	context = open_first();
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	srq = ibv_create_srq(pd, &srq_init);
	struct ibv_ah_attr ah_attr = { .port_num = 1, .dlid = 1 };

	ah = ibv_create_ah(pd, &ah_attr);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(pd && channel && srq && ah && mw);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	joined(context, &a, &b);

	void *(*work[])(void *) = { makes, makes, asks, talks };
	pthread_t busy[4], forkers[3];

	for (int nth = 0; nth < 4; nth++)
		EQ(pthread_create(&busy[nth], NULL, work[nth], NULL), 0);
	forks((void *)40);
	executes();
	for (int nth = 0; nth < 3; nth++)
		EQ(pthread_create(&forkers[nth], NULL, forks, (void *)12), 0);
	for (int nth = 0; nth < 3; nth++)
		EQ(pthread_join(forkers[nth], NULL), 0);
	stop = 1;
	for (int nth = 0; nth < 4; nth++)
		EQ(pthread_join(busy[nth], NULL), 0);
	CHECK(rounds > 0);

	/* All of it is still the parent's. */
	exchange(&a, &b, 3);
	drop_side(&a);
	drop_side(&b);
	EQ(ibv_dealloc_mw(mw), 0);
	EQ(ibv_destroy_ah(ah), 0);
	EQ(ibv_destroy_srq(srq), 0);
	EQ(ibv_destroy_comp_channel(channel), 0);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
