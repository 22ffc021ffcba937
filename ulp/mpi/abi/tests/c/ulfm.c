/* Ranks die at moments that a seed chooses, while all agree, shrink, revoke and reduce (ULFM,
 * mpi-ext.h). Run by mpirun --with-ft ulfm. ulfm SEED: a program that repairs itself, as ULFM's
 * users write it. ulfm rules: what each call says, with one death. ulfm frees: nothing is kept of
 * communicators that are gone. */
#include "check.h"
#include <malloc.h>
#include <mpi-ext.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 40, TAG = 5, LONG = 300000 };

#define CLASS(call, class) CHECK(class_of(call) == (class))

static int is_failure(int code)
{
	int class = class_of(code);
	return class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING || class == MPIX_ERR_REVOKED;
}

/* SplitMix64. */
static unsigned long long draw(unsigned long long *state)
{
	unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void on_alarm(int signal)
{
	(void)signal;
	raise(SIGKILL);
}

/* A signal's handler kills this process in the midst of whatever it does then. */
static void die_in(long us)
{
	struct sigaction action;
	struct itimerspec when = {{0, 0}, {us / 1000000, us % 1000000 * 1000 + 1}};
	struct sigevent event;
	timer_t timer;

	memset(&action, 0, sizeof action);
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGALRM;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &when, NULL) == 0);
}

/* All who live have the same bits, and the same number of members. */
static void check_same(MPI_Comm comm, unsigned flag, int code)
{
	unsigned mine[2] = {flag, (unsigned)class_of(code)}, low[2], high[2];

	/* Another one may die meanwhile: then nobody can say. */
	if (MPI_Allreduce(mine, low, 2, MPI_UNSIGNED, MPI_MIN, comm) != MPI_SUCCESS)
		return;
	if (MPI_Allreduce(mine, high, 2, MPI_UNSIGNED, MPI_MAX, comm) != MPI_SUCCESS)
		return;
	CHECK(low[0] == high[0] && low[1] == high[1]);
}

static int repairs(unsigned long long seed, int verbs)
{
	unsigned long long state = seed * 1000003 + 17;
	int victims = 0, me, count, *dies = calloc(size, sizeof *dies);
	MPI_Comm comm, next;
	char *in = malloc(LONG), *out = malloc((size_t)LONG * size);

	/* The same sequence everywhere: up to half of the ranks die, but not all. */
	for (int i = 1 + (int)(draw(&state) % (size / 2)); i > 0; i--)
		dies[draw(&state) % size] = 1;
	/* The first leader of agreements often. */
	if (seed % 4 == 1) {
		memset(dies, 0, size * sizeof *dies);
		dies[0] = dies[1] = 1;
	}
	for (int i = 0; i < size; i++)
		victims += dies[i];
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i <= rank; i++)
		draw(&state);
	if (dies[rank])
		die_in(1 + (long)(draw(&state) % (verbs ? 30000 : 6000)));
	for (int round = 0; round < ROUNDS || dies[rank]; round++) {
		int code, agreed, all;
		unsigned flag, sum, one = 1;

		MPI_Comm_rank(comm, &me);
		MPI_Comm_size(comm, &count);
		memset(in, me, LONG);
		code = MPI_Allreduce(&one, &sum, 1, MPI_UNSIGNED, MPI_SUM, comm);
		CHECK(code == MPI_SUCCESS ? (int)sum == count : is_failure(code));
		if (code == MPI_SUCCESS && round % 3 == 0) {
			code = MPI_Allgather(in, LONG / size, MPI_CHAR, out, LONG / size, MPI_CHAR, comm);
			CHECK(code == MPI_SUCCESS || is_failure(code));
		}
		if (code == MPI_SUCCESS && round % 3 == 1) {
			int right = (me + 1) % count, left = (me + count - 1) % count;
			code = MPI_Sendrecv(in, LONG, MPI_CHAR, right, TAG, out, LONG, MPI_CHAR, left, TAG, comm, MPI_STATUS_IGNORE);
			CHECK(code == MPI_SUCCESS ? out[LONG - 1] == (char)left : is_failure(code));
		}
		/* Who waits for a message of one who lives and has given up does not learn of it otherwise. */
		if (code != MPI_SUCCESS && (round % 3 == 1 || round % 2 == 0))
			CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
		flag = code == MPI_SUCCESS ? 3 : 2;
		agreed = MPIX_Comm_agree(comm, (int *)&flag);
		CHECK(agreed == MPI_SUCCESS || class_of(agreed) == MPIX_ERR_PROC_FAILED);
		CHECK(flag == 3 || flag == 2);
		all = flag == 3 && agreed == MPI_SUCCESS;
		if (all) {
			CHECK(code == MPI_SUCCESS);
			continue;
		}
		if (round % 5 == 4) {
			MPI_Request request;
			CHECK(MPIX_Comm_ishrink(comm, &next, &request) == MPI_SUCCESS);
			CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		} else {
			CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
		}
		check_same(next, flag, agreed);
		CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
		comm = next;
	}
	/* Those who are left have found each other. */
	for (;;) {
		unsigned flag = 1, sum, one = 1;
		int code, agreed;
		MPI_Comm_size(comm, &count);
		code = MPI_Allreduce(&one, &sum, 1, MPI_UNSIGNED, MPI_SUM, comm);
		CHECK(code == MPI_SUCCESS ? (int)sum == count : is_failure(code));
		flag = code == MPI_SUCCESS;
		agreed = MPIX_Comm_agree(comm, (int *)&flag);
		if (flag && agreed == MPI_SUCCESS)
			break;
		CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
		CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
		comm = next;
	}
	MPI_Comm_rank(comm, &me);
	CHECK(count >= size - victims && count <= size);
	if (me == 0)
		printf("ulfm: %d ranks, %d left: ok\n", size, count);
	MPI_Comm_free(&comm);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}

/* The failed ranks of a communicator that this one knows of. */
static int failed(MPI_Comm comm)
{
	MPI_Group group;
	int count;

	CHECK(MPIX_Comm_get_failed(comm, &group) == MPI_SUCCESS);
	MPI_Group_size(group, &count);
	MPI_Group_free(&group);
	return count;
}

static int rules(void)
{
	int last = size - 1, value = 7, got = -1, flag, acked, code, count, me;
	MPI_Comm world, twin, third, pair, side, left;
	MPI_Request request, other;
	MPI_Status status, both[2];
	MPI_Group group;

	CHECK(size >= 3);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_dup(MPI_COMM_WORLD, &world);
	MPI_Comm_dup(MPI_COMM_WORLD, &twin);
	MPI_Comm_dup(MPI_COMM_WORLD, &third);
	MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &pair);
	/* Nothing has failed. */
	CHECK(MPIX_Comm_is_revoked(world, &flag) == MPI_SUCCESS && !flag);
	CHECK(failed(world) == 0);
	CHECK(MPIX_Comm_ack_failed(world, size, &acked) == MPI_SUCCESS && acked == 0);
	flag = rank == 1 ? 0x6 : 0x3;
	CHECK(MPIX_Comm_agree(world, &flag) == MPI_SUCCESS && flag == 0x2);
	flag = rank == 0 ? 0x5 : 0x7;
	CHECK(MPIX_Comm_iagree(world, &flag, &request) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && flag == 0x5);
	CHECK(MPIX_Comm_shrink(world, &left) == MPI_SUCCESS);
	MPI_Comm_size(left, &count);
	CHECK(count == size);
	MPI_Comm_free(&left);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == last)
		raise(SIGKILL);
	/* A receive from anybody says so and goes on; that of one who lives is not concerned. */
	if (rank == 0) {
		CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, world, &request) == MPI_SUCCESS);
		CHECK(MPI_Irecv(&value, 1, MPI_INT, 1, 2, world, &other) == MPI_SUCCESS);
		CLASS(MPI_Wait(&request, &status), MPIX_ERR_PROC_FAILED_PENDING);
		CHECK(request != MPI_REQUEST_NULL);
		CLASS(MPI_Test(&request, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
		CHECK(!flag && request != MPI_REQUEST_NULL);
		CLASS(MPI_Recv(&acked, 1, MPI_INT, MPI_ANY_SOURCE, 3, world, &status), MPIX_ERR_PROC_FAILED);
		CLASS(MPI_Probe(MPI_ANY_SOURCE, 3, world, &status), MPIX_ERR_PROC_FAILED);
		CHECK(failed(world) == 1);
		MPIX_Comm_get_failed(world, &group);
		MPI_Group_free(&group);
		/* Its message comes nevertheless: of several requests one waits, and the others are over. */
		CHECK(MPI_Send(&rank, 1, MPI_INT, 1, 4, world) == MPI_SUCCESS);
		code = MPI_Waitall(2, (MPI_Request[]){other, request}, both);
		if (code == MPI_SUCCESS) {
			CHECK(got == 11 && value == 12);
		} else {
			CLASS(code, MPI_ERR_IN_STATUS);
			CHECK(both[0].MPI_ERROR == MPI_SUCCESS && value == 12);
			CHECK(both[1].MPI_ERROR == MPIX_ERR_PROC_FAILED_PENDING);
			CHECK(MPIX_Comm_ack_failed(world, 0, &acked) == MPI_SUCCESS && acked == 0);
			CHECK(MPIX_Comm_ack_failed(world, size, &acked) == MPI_SUCCESS && acked == 1);
			CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && got == 11 && status.MPI_SOURCE == 1);
		}
		CHECK(MPIX_Comm_ack_failed(world, size, &acked) == MPI_SUCCESS && acked == 1);
		/* Acknowledged: receives from anybody are as before, and one that waits is taken back. */
		CHECK(MPI_Send(&rank, 1, MPI_INT, 1, 4, world) == MPI_SUCCESS);
		CHECK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, world, &status) == MPI_SUCCESS && got == 13);
		CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, twin, &request) == MPI_SUCCESS);
		CLASS(MPI_Wait(&request, &status), MPIX_ERR_PROC_FAILED_PENDING);
		CHECK(MPI_Cancel(&request) == MPI_SUCCESS && MPI_Wait(&request, &status) == MPI_SUCCESS);
		MPI_Test_cancelled(&status, &flag);
		CHECK(flag && request == MPI_REQUEST_NULL);
		CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, twin, &request) == MPI_SUCCESS);
		CLASS(MPI_Wait(&request, &status), MPIX_ERR_PROC_FAILED_PENDING);
		CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
	} else if (rank == 1) {
		CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 4, world, &status) == MPI_SUCCESS);
		value = 12;
		CHECK(MPI_Send(&value, 1, MPI_INT, 0, 2, world) == MPI_SUCCESS);
		value = 11;
		CHECK(MPI_Send(&value, 1, MPI_INT, 0, 1, world) == MPI_SUCCESS);
		CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 4, world, &status) == MPI_SUCCESS);
		value = 13;
		CHECK(MPI_Send(&value, 1, MPI_INT, 0, 3, world) == MPI_SUCCESS);
	}
	/* An agreement says the failure until all have acknowledged it. */
	flag = rank == 0 ? 0xe : 0x7;
	CLASS(MPIX_Comm_agree(twin, &flag), MPIX_ERR_PROC_FAILED);
	CHECK(flag == 0x6 && failed(twin) == 1);
	if (rank == 0)
		CHECK(MPIX_Comm_failure_ack(twin) == MPI_SUCCESS);
	flag = 1;
	CLASS(MPIX_Comm_agree(twin, &flag), MPIX_ERR_PROC_FAILED);
	CHECK(MPIX_Comm_failure_ack(twin) == MPI_SUCCESS);
	CHECK(MPIX_Comm_failure_get_acked(twin, &group) == MPI_SUCCESS);
	MPI_Group_size(group, &count);
	MPI_Group_free(&group);
	CHECK(count == 1);
	flag = 1;
	CHECK(MPIX_Comm_agree(twin, &flag) == MPI_SUCCESS && flag == 1);
	/* Collectives do not care. */
	CLASS(MPI_Barrier(twin), MPIX_ERR_PROC_FAILED);
	/* Who tries again and again, and fails at once, learns that another one has revoked. */
	if (rank == 0) {
		usleep(20000);
		CHECK(MPIX_Comm_revoke(third) == MPI_SUCCESS);
	}
	while (class_of(code = MPI_Barrier(third)) != MPIX_ERR_REVOKED)
		CLASS(code, MPIX_ERR_PROC_FAILED);
	MPI_Comm_free(&third);
	/* One revokes; what waits there ends everywhere, and nothing begins. */
	if (rank == 0) {
		usleep(20000);
		CHECK(MPIX_Comm_revoke(twin) == MPI_SUCCESS && MPIX_Comm_revoke(twin) == MPI_SUCCESS);
	} else if (rank == 1) {
		char *large = malloc(1 << 20);
		CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, twin, &request) == MPI_SUCCESS);
		CHECK(MPI_Isend(large, 1 << 20, MPI_CHAR, 0, 1, twin, &other) == MPI_SUCCESS);
		CLASS(MPI_Recv(&got, 1, MPI_INT, 0, 8, twin, &status), MPIX_ERR_REVOKED);
		CLASS(MPI_Wait(&request, &status), MPIX_ERR_REVOKED);
		CLASS(MPI_Wait(&other, &status), MPIX_ERR_REVOKED);
		free(large);
	} else {
		CLASS(MPI_Ssend(&value, 1, MPI_INT, 0, 1, twin), MPIX_ERR_REVOKED);
	}
	CHECK(MPIX_Comm_is_revoked(twin, &flag) == MPI_SUCCESS && flag);
	CLASS(MPI_Send(&value, 1, MPI_INT, 0, 1, twin), MPIX_ERR_REVOKED);
	CLASS(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, twin), MPIX_ERR_REVOKED);
	CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 1, twin, &status), MPIX_ERR_REVOKED);
	CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, twin, &status), MPIX_ERR_REVOKED);
	CLASS(MPI_Iprobe(MPI_ANY_SOURCE, 1, twin, &flag, &status), MPIX_ERR_REVOKED);
	CLASS(MPI_Bcast(&value, 1, MPI_INT, 0, twin), MPIX_ERR_REVOKED);
	CLASS(MPI_Comm_dup(twin, &side), MPIX_ERR_REVOKED);
	CLASS(MPI_Comm_split(twin, 0, 0, &side), MPIX_ERR_REVOKED);
	MPI_Comm_group(twin, &group);
	CLASS(MPI_Comm_create_group(twin, group, 1, &side), MPIX_ERR_REVOKED);
	MPI_Group_free(&group);
	MPI_Comm_size(twin, &count);
	MPI_Comm_rank(twin, &me);
	CHECK(count == size && me == rank && failed(twin) == 1);
	/* The others go on, and the revoked one agrees and shrinks. */
	if (rank < 2)
		CHECK(MPI_Allreduce(&rank, &value, 1, MPI_INT, MPI_SUM, pair) == MPI_SUCCESS && value == 1);
	flag = 5;
	CHECK(MPIX_Comm_agree(twin, &flag) == MPI_SUCCESS && flag == 5);
	CHECK(MPIX_Comm_shrink(twin, &left) == MPI_SUCCESS);
	MPI_Comm_size(left, &count);
	MPI_Comm_rank(left, &me);
	CHECK(count == size - 1 && me == rank);
	CHECK(MPI_Allreduce(&rank, &value, 1, MPI_INT, MPI_SUM, left) == MPI_SUCCESS && value == (size - 1) * (size - 2) / 2);
	CHECK(MPIX_Comm_is_revoked(left, &flag) == MPI_SUCCESS && !flag && failed(left) == 0);
	MPI_Comm_free(&left);
	MPI_Comm_free(&twin);
	MPI_Comm_free(&world);
	MPI_Comm_free(&pair);
	if (rank == 0)
		printf("ulfm: %d ranks: ok\n", size);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}

/* Communicators are shrunk, agree and go, many times: what is kept of them does not grow. */
static int frees(void)
{
	enum { BEFORE = 1000, TIMES = 10000 };
	MPI_Comm comm, next;
	size_t before = 0;
	int flag, i;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (i = 0; i < BEFORE + TIMES; i++) {
		if (i == BEFORE) {
			MPI_Barrier(MPI_COMM_WORLD);
			before = mallinfo2().uordblks;
		}
		flag = i;
		if (i % 10 == 0)
			CHECK(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == i);
		CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
		CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
		comm = next;
	}
	MPI_Comm_free(&comm);
	MPI_Barrier(MPI_COMM_WORLD);
	/* Twenty bytes for each of them. */
	CHECK(mallinfo2().uordblks < before + 20 * TIMES);
	return end("ulfm");
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	CHECK(argc > 1);
	if (strcmp(argv[1], "frees") == 0)
		return frees();
	if (strcmp(argv[1], "rules") == 0)
		return rules();
	return repairs(strtoull(argv[1], NULL, 10), argc > 2);
}
