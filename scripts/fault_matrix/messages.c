/* Messages between pairs of ranks for a time, each byte checked, while somebody else lets things
 * fail: a column of the matrix of faults (scripts/faults).
 *
 * usage: messages SECONDS DIRECTORY KIND [LENGTH [COUNT]]
 *   each     messages of LENGTH bytes to and fro, one at a time
 *   row      COUNT of them in a row, to one side, to the other, and both ways at once
 *   gaps     a message of LENGTH bytes in pieces of 1 KiB with gaps between them
 *   anew     messages of up to LENGTH bytes both ways, in memory that is had for each of them
 *   threads  COUNT threads of each rank, whose messages of LENGTH bytes go to and fro at once
 *   sum      MPI_Allreduce of LENGTH bytes
 *   all      MPI_Alltoall of LENGTH bytes for each rank
 *
 * SIGUSR1 has a rank compute for five seconds, without a call of MPI.
 *
 * Each rank writes its process number to DIRECTORY/rank.N when messages have gone. The first
 * rank says at the end how many rounds there were, how long the longest took and how many
 * connections all ranks made anew. Exit status: 0 all is well, 3 something wrong came, 4 MPI says
 * that a peer is lost. */
#include <mpi.h>
#include <ferriband_mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRONG = 3, LOST = 4, PIECE = 1024 };
/* Tags; those of threads follow the last. */
enum { DATA = 1, GO_ON = 2, OF_THREAD = 3 };

static int rank, size, other, length = 8, count = 1;
static unsigned char *sent, *taken;
static MPI_Request *requests;

static void leave(int status, const char *why)
{
	fprintf(stderr, "rank %d: %s\n", rank, why);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, status);
	exit(status);
}

/* An error of MPI ends the job with what it says. */
static void must(int code)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int used;
	if (code == MPI_SUCCESS)
		return;
	MPI_Error_string(code, text, &used);
	leave(LOST, text);
}

static void wait_for(int used)
{
	MPI_Status *statuses = calloc(used ? used : 1, sizeof *statuses);
	int code = MPI_Waitall(used, requests, statuses);
	if (code == MPI_ERR_IN_STATUS)
		for (int i = 0; i < used; i++)
			if (statuses[i].MPI_ERROR != MPI_ERR_PENDING)
				must(statuses[i].MPI_ERROR);
	must(code);
	free(statuses);
}

static unsigned char byte_of(long at, long salt)
{
	return (unsigned char)(at * 7 + at / 251 + salt);
}

static void fill(unsigned char *into, long bytes, long salt)
{
	for (long i = 0; i < bytes; i++)
		into[i] = byte_of(i, salt);
}

static void check(const unsigned char *what, long bytes, long salt)
{
	for (long i = 0; i < bytes; i++)
		if (what[i] != byte_of(i, salt)) {
			char text[80];
			snprintf(text, sizeof text, "byte %ld is %d, not %d", i, what[i], byte_of(i, salt));
			leave(WRONG, text);
		}
}

static void each(long round)
{
	for (int turn = 0; turn < 8; turn++) {
		long salt = round * 8 + turn;
		memset(taken, 0, length);
		if (rank % 2) {
			must(MPI_Recv(taken, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
			check(taken, length, salt);
			must(MPI_Send(taken, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD));
		} else {
			fill(sent, length, salt);
			must(MPI_Send(sent, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD));
			must(MPI_Recv(taken, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
			check(taken, length, salt);
		}
	}
}

static void row(long round)
{
	int sends = round % 3 != rank % 2, receives = round % 3 == 2 || !sends, used = 0;
	for (long i = 0; receives && i < count; i++) {
		memset(taken + i * length, 0, length);
		must(MPI_Irecv(taken + i * length, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[used++]));
	}
	for (long i = 0; sends && i < count; i++) {
		fill(sent + i * length, length, round + i);
		must(MPI_Isend(sent + i * length, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[used++]));
	}
	wait_for(used);
	for (long i = 0; receives && i < count; i++)
		check(taken + i * length, length, round + i);
}

static void gaps(long round)
{
	MPI_Datatype sparse;
	int pieces = length / PIECE;
	must(MPI_Type_vector(pieces, PIECE, 2 * PIECE, MPI_BYTE, &sparse));
	must(MPI_Type_commit(&sparse));
	fill(sent, 2L * length, round);
	memset(taken, 0, 2L * length);
	must(MPI_Irecv(taken, 1, sparse, other, DATA, MPI_COMM_WORLD, &requests[0]));
	must(MPI_Isend(sent, 1, sparse, other, DATA, MPI_COMM_WORLD, &requests[1]));
	wait_for(2);
	for (long i = 0; i < 2L * length; i++)
		if (taken[i] != (i / PIECE % 2 ? 0 : sent[i]))
			leave(WRONG, "a message with gaps is another");
	must(MPI_Type_free(&sparse));
}

/* What is freed is had again for the next message, at another place of the memory that was named. */
static void anew(long round)
{
	for (long turn = 0; turn < 4; turn++) {
		long salt = round * 4 + turn, sends, comes;
		MPI_Status status;
		int came;
		/* Each side's length is another one, and known to both. */
		sends = 1 + (salt * 7919 + rank % 2 * 104729) % length;
		comes = 1 + (salt * 7919 + other % 2 * 104729) % length;
		unsigned char *out = malloc(sends), *in = malloc(length);
		if (out == NULL || in == NULL)
			leave(1, "no memory");
		fill(out, sends, salt);
		memset(in, 0, length);
		must(MPI_Sendrecv(out, sends, MPI_BYTE, other, DATA, in, length, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &status));
		must(MPI_Get_count(&status, MPI_BYTE, &came));
		if (came != comes)
			leave(WRONG, "a message has another length");
		check(in, comes, salt);
		free(in);
		free(out);
	}
}

struct thread {
	pthread_t id;
	int number;
	long round;
};

static void *to_and_fro(void *of)
{
	const struct thread *me = of;
	unsigned char *in = malloc(length), *out = malloc(length);
	if (in == NULL || out == NULL)
		leave(1, "no memory");
	for (long turn = 0; turn < 4; turn++) {
		long salt = (me->round * 4 + turn) * 64 + me->number;
		fill(out, length, salt + rank);
		must(MPI_Sendrecv(out, length, MPI_BYTE, other, OF_THREAD + me->number, in, length, MPI_BYTE, other, OF_THREAD + me->number,
		                  MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		check(in, length, salt + other);
	}
	free(in);
	free(out);
	return NULL;
}

static void threads(long round)
{
	struct thread *all = calloc(count, sizeof *all);
	for (int i = 0; i < count; i++) {
		all[i].number = i;
		all[i].round = round;
		if (pthread_create(&all[i].id, NULL, to_and_fro, &all[i]) != 0)
			leave(1, "no thread");
	}
	for (int i = 0; i < count; i++)
		pthread_join(all[i].id, NULL);
	free(all);
}

static void sum(long round)
{
	int *mine = (int *)sent, *all = (int *)taken, words = length / (int)sizeof(int);
	for (int i = 0; i < words; i++)
		mine[i] = (int)round + i * (rank + 1);
	must(MPI_Allreduce(mine, all, words, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	for (int i = 0; i < words; i++)
		if (all[i] != (int)round * size + i * (size * (size + 1) / 2))
			leave(WRONG, "a sum is another");
}

static void all(long round)
{
	for (long to = 0; to < size; to++)
		fill(sent + to * length, length, round + rank * size + to);
	must(MPI_Alltoall(sent, length, MPI_BYTE, taken, length, MPI_BYTE, MPI_COMM_WORLD));
	for (long from = 0; from < size; from++)
		check(taken + from * length, length, round + from * size + rank);
}

static const struct {
	const char *name;
	void (*round)(long);
} KINDS[] = { { "each", each }, { "row", row },     { "gaps", gaps }, { "anew", anew },
	      { "sum", sum },   { "all", all }, { "threads", threads } };

static volatile sig_atomic_t is_to_compute;

static void compute_next(int number)
{
	(void)number;
	is_to_compute = 1;
}

static void compute(void)
{
	double until = MPI_Wtime() + 5;
	is_to_compute = 0;
	while (MPI_Wtime() < until)
		;
}

/* What the first rank says goes for all. */
static int goes_on(int wanted)
{
	for (int to = 1; rank == 0 && to < size; to++)
		must(MPI_Send(&wanted, 1, MPI_INT, to, GO_ON, MPI_COMM_WORLD));
	if (rank != 0)
		must(MPI_Recv(&wanted, 1, MPI_INT, 0, GO_ON, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	return wanted;
}

static void say_that_it_runs(const char *directory)
{
	char name[4096], whole[4096];
	snprintf(name, sizeof name, "%s/.rank.%d", directory, rank);
	snprintf(whole, sizeof whole, "%s/rank.%d", directory, rank);
	FILE *file = fopen(name, "w");
	if (file == NULL || fprintf(file, "%ld\n", (long)getpid()) < 0 || fclose(file) != 0 || rename(name, whole) != 0)
		leave(1, "cannot say that it runs");
}

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	void (*of_a_round)(long) = NULL;
	double worst = 0, seconds = argc > 3 ? atof(argv[1]) : 0;
	long round = 0;

	for (size_t i = 0; argc > 3 && i < sizeof KINDS / sizeof *KINDS; i++)
		if (strcmp(argv[3], KINDS[i].name) == 0)
			of_a_round = KINDS[i].round;
	if (of_a_round == NULL) {
		fprintf(stderr, "usage: messages SECONDS DIRECTORY each|row|gaps|anew|threads|sum|all [LENGTH [COUNT]]\n");
		return 2;
	}
	length = argc > 4 ? atoi(argv[4]) : length;
	count = argc > 5 ? atoi(argv[5]) : count;
	signal(SIGUSR1, compute_next);
	int given;
	MPI_Init_thread(&argc, &argv, of_a_round == threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	other = rank ^ 1;
	sent = malloc((size_t)length * (count > size ? count : size) * 2);
	taken = malloc((size_t)length * (count > size ? count : size) * 2);
	requests = malloc(sizeof *requests * 2 * (count + 1));
	if (size % 2 || sent == NULL || taken == NULL || requests == NULL)
		leave(1, "an even number of ranks, and memory for them");
	for (; round < 3; round++)
		of_a_round(round);
	goes_on(1);
	say_that_it_runs(argv[2]);
	double begun = MPI_Wtime(), before = begun, now = begun;
	while (goes_on(now - begun < seconds)) {
		if (is_to_compute)
			compute();
		of_a_round(round++);
		now = MPI_Wtime();
		worst = now - before > worst ? now - before : worst;
		before = now;
	}
	ferriband_mpi_get_stats(&stats);
	unsigned long long heals = stats.heals, whole = 0;
	must(MPI_Reduce(&heals, &whole, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
	if (rank == 0)
		printf("rounds %ld worst_ms %.1f heals %llu\n", round, worst * 1e3, whole);
	must(MPI_Finalize());
	return 0;
}
