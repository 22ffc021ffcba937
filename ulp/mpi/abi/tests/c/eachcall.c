/* Messages of 8 B, 64 KiB and 1 MiB between two ranks, each byte checked, for runs in which a call
 * of verbs fails: to and fro, many in a row, both ways at once, and one that its receiver waits for
 * asleep. An error of MPI ends the job; with PATIENCE in the environment not before so many
 * milliseconds, so that the other rank first says what it knows. */
#include "check.h"
#include <unistd.h>

enum { LOST = 4, MANY = 96, SHORT = 8, LONG = 1 << 20 };
static const unsigned LENGTHS[] = { SHORT, 64 << 10, LONG };
static unsigned char sent[LONG], taken[LONG], row[MANY][SHORT];
static int other;

static void must(int code)
{
	const char *patience = getenv("PATIENCE");
	char text[MPI_MAX_ERROR_STRING] = "";
	int used;
	if (code == MPI_SUCCESS)
		return;
	usleep(patience ? 1000 * atoi(patience) : 0);
	MPI_Error_string(code, text, &used);
	fprintf(stderr, "rank %d: %s\n", rank, text);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, LOST);
}

static void give(unsigned length, int salt)
{
	fill(sent, length, salt);
	must(MPI_Send(sent, length, MPI_BYTE, other, 1, MPI_COMM_WORLD));
}

static void take(unsigned length, int salt)
{
	memset(taken, 0, length);
	must(MPI_Recv(taken, length, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(taken, length, salt));
}

static void to_and_fro(unsigned length, int salt)
{
	if (rank == 0) {
		give(length, salt);
		take(length, salt + 1);
	} else {
		take(length, salt);
		give(length, salt + 1);
	}
}

static void both_at_once(unsigned length, int salt)
{
	fill(sent, length, salt + rank);
	memset(taken, 0, length);
	must(MPI_Sendrecv(sent, length, MPI_BYTE, other, 2, taken, length, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(taken, length, salt + other));
}

/* From rank 1; more than the receives that there are at first. */
static void in_a_row(int salt)
{
	MPI_Request requests[MANY];
	MPI_Status statuses[MANY];
	for (int i = 0; i < MANY; i++) {
		memset(row[i], 0, SHORT);
		if (rank == 1) {
			fill(row[i], SHORT, salt + i);
			must(MPI_Isend(row[i], SHORT, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[i]));
		} else {
			must(MPI_Irecv(row[i], SHORT, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[i]));
		}
	}
	int code = MPI_Waitall(MANY, requests, statuses);
	for (int i = 0; code == MPI_ERR_IN_STATUS && i < MANY; i++)
		if (statuses[i].MPI_ERROR != MPI_ERR_PENDING)
			must(statuses[i].MPI_ERROR);
	must(code);
	for (int i = 0; i < MANY; i++)
		CHECK(holds(row[i], SHORT, salt + i));
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	if (getenv("PATIENCE")) {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	}
	CHECK(size == 2);
	other = 1 - rank;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			int salt = 100 * round + 10 * i;
			to_and_fro(LENGTHS[i], salt);
			both_at_once(LENGTHS[i], salt + 2);
		}
		in_a_row(round);
		/* Each waits asleep for the other once. */
		if (rank == round)
			usleep(20000);
		to_and_fro(SHORT, round);
	}
	must(MPI_Barrier(MPI_COMM_WORLD));
	if (rank == 0)
		printf("eachcall: %d ranks: ok\n", size);
	must(MPI_Finalize());
	return 0;
}
