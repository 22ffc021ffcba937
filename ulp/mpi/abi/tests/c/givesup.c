/* A call fails while a long message of a healthy peer is under way: its memory is the program's
 * again at once, nobody is lost, and all later messages come. In pairs of ranks one revokes a
 * communicator (ULFM) while a message moves, and computes or is stopped for a time; then all ranks
 * revoke, agree and shrink while all have long messages under way. FIRST and LAST in the
 * environment: from which round to before which; the peer computes in even ones, and is stopped in
 * the others. */
#include "check.h"
#include <ferriband_mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

enum { LENGTH = 24 << 20, BLOCK = 4096, MESSAGES = 100, WORD = 3000, RING = 8 << 20, AWAY_MS = 1200 };

static int other, is_caller;
static unsigned char *sent, *taken;
static int helper[2];
static MPI_Datatype gaps;

/* A process that continues this one after it was stopped. */
static void hire(void)
{
	pid_t parent = getpid();
	char word;
	if (pipe(helper) != 0 || fork() != 0)
		return;
	close(helper[1]);
	while (read(helper[0], &word, 1) == 1) {
		usleep(AWAY_MS * 1000);
		kill(parent, SIGCONT);
	}
	_exit(0);
}

/* This rank computes, or is stopped, and looks at nothing. */
static void go_away(int is_stopped)
{
	if (!is_stopped) {
		usleep(AWAY_MS * 1000);
		return;
	}
	CHECK(write(helper[1], "x", 1) == 1);
	raise(SIGSTOP);
}

static int is_end(int code)
{
	int class = class_of(code);
	return class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED;
}

/* Values below 128, of which none is `not`. */
static void fill_low(unsigned char *buffer, int salt)
{
	for (long i = 0; i < LENGTH; i++)
		buffer[i] = pattern(i, salt) & 0x7f;
}

static int all_are(const unsigned char *buffer, unsigned char value)
{
	for (long i = 0; i < LENGTH; i++)
		if (buffer[i] != value)
			return 0;
	return 1;
}

static void look(int times)
{
	int flag;
	for (int i = 0; i < times; i++)
		CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag);
}

/* The peer is there: messages both ways, each is checked. */
static void is_healthy(int round)
{
	static unsigned char out[WORD], in[WORD];
	for (int i = 0; i < MESSAGES; i++) {
		int length = i % 10 == 9 ? WORD : 8 + i;
		fill(out, length, round + i + rank);
		memset(in, 0, length);
		CHECK(MPI_Sendrecv(out, length, MPI_BYTE, other, i, in, length, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(holds(in, length, round + i + other));
	}
}

/* A receive whose message moves when its call fails. */
static void receive_fails(int round, int is_stopped, int looks, int has_gaps)
{
	MPI_Comm pair;
	MPI_Request request;
	MPI_Datatype type = has_gaps ? gaps : MPI_BYTE;
	int count = has_gaps ? 1 : LENGTH;
	CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	if (is_caller) {
		/* What is sent to this rank itself waits for a receive, until the communicator is revoked. */
		double begun = MPI_Wtime();
		int code = MPI_Sendrecv(sent, 1 << 20, MPI_BYTE, 0, 1, taken, count, type, 1, 2, pair, MPI_STATUS_IGNORE);
		memset(taken, 0x5a, LENGTH);
		CHECK(class_of(code) == MPIX_ERR_REVOKED);
		CHECK(is_stopped || MPI_Wtime() - begun < AWAY_MS * 0.9e-3);
	} else {
		fill_low(sent, round);
		CHECK(MPI_Isend(sent, count, type, 0, 2, pair, &request) == MPI_SUCCESS);
		usleep(50000);
		look(looks);
		CHECK(MPIX_Comm_revoke(pair) == MPI_SUCCESS);
		go_away(is_stopped);
		CHECK(is_end(MPI_Wait(&request, MPI_STATUS_IGNORE)));
	}
	is_healthy(round);
	CHECK(!is_caller || all_are(taken, 0x5a));
	CHECK(MPI_Comm_free(&pair) == MPI_SUCCESS);
}

/* A send of a collective, whose receiver is away when that fails. */
static void send_fails(int round, int is_stopped, int looks, int has_gaps)
{
	MPI_Comm pair;
	MPI_Request request;
	MPI_Datatype type = has_gaps ? gaps : MPI_BYTE;
	int count = has_gaps ? 1 : LENGTH;
	CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	if (is_caller) {
		fill_low(sent, round);
		double begun = MPI_Wtime();
		int code = MPI_Bcast(sent, count, type, 0, pair);
		int took = (int)((MPI_Wtime() - begun) * 1000);
		memset(sent, 0xee, LENGTH);
		CHECK(is_end(code) && (is_stopped || took < AWAY_MS * 9 / 10));
	} else {
		memset(taken, 0x11, LENGTH);
		CHECK(MPI_Ibcast(taken, count, type, 0, pair, &request) == MPI_SUCCESS);
		usleep(20000);
		look(looks);
		CHECK(MPIX_Comm_revoke(pair) == MPI_SUCCESS);
		go_away(is_stopped);
		CHECK(is_end(MPI_Wait(&request, MPI_STATUS_IGNORE)));
	}
	is_healthy(round);
	for (long i = 0; !is_caller && i < LENGTH; i++)
		CHECK(taken[i] < 0x80);
	CHECK(MPI_Comm_free(&pair) == MPI_SUCCESS);
}

/* All have long messages under way when somebody revokes their communicator; nobody is lost. */
static void all_go_on(int round)
{
	MPI_Comm comm, next;
	int right = (rank + 1) % size, left = (rank + size - 1) % size, code = MPI_SUCCESS, count, flag = 1, one = 1, sum;
	CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	for (int i = 0; code == MPI_SUCCESS && i < 1000; i++) {
		if (rank == round % size && i == round % 3) {
			MPI_Request requests[2];
			CHECK(MPI_Irecv(taken, RING, MPI_BYTE, left, 1, comm, &requests[0]) == MPI_SUCCESS);
			CHECK(MPI_Isend(sent, RING, MPI_BYTE, right, 1, comm, &requests[1]) == MPI_SUCCESS);
			look(round % 7);
			CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
			code = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
			CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_IN_STATUS);
			break;
		}
		code = MPI_Sendrecv(sent, RING, MPI_BYTE, right, 1, taken, RING, MPI_BYTE, left, 1, comm, MPI_STATUS_IGNORE);
		CHECK(is_end(code));
	}
	CHECK(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == 1);
	CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(next, &count) == MPI_SUCCESS && count == size);
	CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, next) == MPI_SUCCESS && sum == size);
	CHECK(MPI_Comm_free(&next) == MPI_SUCCESS && MPI_Comm_free(&comm) == MPI_SUCCESS);
	is_healthy(round);
}

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	const char *first = getenv("FIRST"), *last = getenv("LAST");
	hire();
	begin(&argc, &argv);
	CHECK(size % 2 == 0);
	other = rank ^ 1;
	is_caller = rank % 2 == 0;
	sent = calloc(LENGTH, 1);
	taken = calloc(LENGTH, 1);
	CHECK(sent && taken);
	CHECK(MPI_Type_vector(LENGTH / BLOCK / 2, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps) == MPI_SUCCESS);
	CHECK(MPI_Type_commit(&gaps) == MPI_SUCCESS);
	/* The lane is made by the first messages that want it. */
	for (int i = 0; i < 4; i++)
		CHECK(MPI_Sendrecv(sent, 1 << 20, MPI_BYTE, other, 1, taken, 1 << 20, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	for (int round = first ? atoi(first) : 0; round < (last ? atoi(last) : 4); round++) {
		/* Who has looked may have no room for the word that it revokes: it goes with the next look. */
		int is_stopped = round % 2;
		receive_fails(round, is_stopped, is_stopped ? round % 3 : 0, round % 4 == 3);
		send_fails(round, is_stopped, is_stopped ? round % 3 : 0, round % 4 == 2);
	}
	for (int round = 0; round < 6; round++)
		all_go_on(round);
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	CHECK(stats.heals > 0);
	return end("givesup");
}
