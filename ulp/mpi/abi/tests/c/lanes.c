/* Long messages between pairs of ranks, of all the kinds that may be under way together: in one run of bytes or with gaps at either end, shorter receives, more than any queue holds, both
   ways at once, among shorter messages whose order they must keep. $LANES: "landed" if they have to come by SEND into the program's memory, "written" if none may. */
#include "check.h"
#include "ferriband_mpi.h"
#include "random.h"

enum { MOST = 200, LONGEST = 300000, GAPS = 3, ROUNDS = 6 };

static unsigned char *out[MOST], *in[MOST];
static int sizes[MOST], rooms[MOST], has_gaps[MOST][2];
static MPI_Datatype every_third;

/* The bytes of a message lie side by side, or each third one alone. */
static void place(unsigned char *to, long length, int gaps, int salt)
{
	for (long i = 0; i < length; i++)
		to[gaps ? i * GAPS : i] = pattern(i, salt);
}

static int lies(const unsigned char *at, long length, long room, int gaps, int salt)
{
	for (long i = 0; i < room; i++)
		if (at[gaps ? i * GAPS : i] != (i < length ? pattern(i, salt) : 0))
			return 0;
	for (long i = 0; gaps && i < room; i++)
		if (at[i * GAPS + 1] != 0)
			return 0;
	return 1;
}

/* `count` messages to the other of the pair and as many from it, of sizes and kinds that `state` says. */
static void exchange(int other, int count, int salt)
{
	MPI_Request requests[2 * MOST];
	MPI_Status statuses[2 * MOST];
	for (int i = 0; i < count; i++) {
		sizes[i] = any(3) ? (int)any(LONGEST) : some_length(LONGEST);
		rooms[i] = any(8) ? sizes[i] : sizes[i] / 2;
		has_gaps[i][0] = any(6) == 0;
		has_gaps[i][1] = any(6) == 0;
		memset(in[i], 0, (size_t)LONGEST * GAPS);
		place(out[i], sizes[i], has_gaps[i][0], salt + i + rank);
	}
	for (int i = 0; i < count; i++)
		CHECK(MPI_Irecv(in[i], rooms[i], has_gaps[i][1] ? every_third : MPI_BYTE, other, 7, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(MPI_Isend(out[i], sizes[i], has_gaps[i][0] ? every_third : MPI_BYTE, other, 7, MPI_COMM_WORLD, &requests[count + i]) == MPI_SUCCESS);
	int code = MPI_Waitall(2 * count, requests, statuses);
	CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_IN_STATUS);
	for (int i = 0; i < count; i++) {
		int got, is_cut = rooms[i] < sizes[i];
		CHECK(code == MPI_SUCCESS ? !is_cut : class_of(statuses[i].MPI_ERROR) == (is_cut ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
		CHECK(code == MPI_SUCCESS || class_of(statuses[count + i].MPI_ERROR) == MPI_SUCCESS);
		CHECK(MPI_Get_count(&statuses[i], MPI_BYTE, &got) == MPI_SUCCESS && got == rooms[i]);
		CHECK(statuses[i].MPI_SOURCE == other && statuses[i].MPI_TAG == 7);
		CHECK(lies(in[i], rooms[i], sizes[i], has_gaps[i][1], salt + i + other));
	}
}

/* Nothing but long ones in one run, from the first of the pair to the second, whose receives come late or early. */
static void pour(int other, int late)
{
	MPI_Request requests[MOST];
	for (int i = 0; i < MOST; i++) {
		if (rank < other)
			place(out[i], LONGEST, 0, i);
		else
			memset(in[i], 0, LONGEST);
	}
	if (!late)
		MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < MOST; i++)
		if (rank < other)
			CHECK(MPI_Isend(out[i], LONGEST, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
	if (late)
		MPI_Barrier(MPI_COMM_WORLD);
	for (int i = MOST - 1; i >= 0; i--)
		if (rank > other)
			CHECK(MPI_Irecv(in[i], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
	CHECK(MPI_Waitall(MOST, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; rank > other && i < MOST; i++)
		CHECK(lies(in[i], LONGEST, LONGEST, 0, i));
}

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	begin(&argc, &argv);
	int other = rank ^ 1;
	CHECK(size % 2 == 0);
	CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	CHECK(MPI_Type_create_resized(MPI_BYTE, 0, GAPS, &every_third) == MPI_SUCCESS && MPI_Type_commit(&every_third) == MPI_SUCCESS);
	for (int i = 0; i < MOST; i++) {
		out[i] = calloc(LONGEST, GAPS);
		in[i] = calloc(LONGEST, GAPS);
		CHECK(out[i] != NULL && in[i] != NULL);
	}
	for (int round = 0; round < ROUNDS; round++) {
		/* Both of a pair choose alike. */
		state = 1 + (unsigned)round * 97 + (unsigned)(rank < other ? rank : other);
		exchange(other, 1 + (int)any(40), round);
	}
	pour(other, 0);
	pour(other, 1);
	const char *lanes = getenv("LANES");
	if (lanes != NULL) {
		CHECK(ferriband_mpi_get_stats(&stats) == 0);
		if (strcmp(lanes, "written") == 0)
			CHECK(stats.landed == 0);
		/* More than a queue holds are under way: those beyond it are written. */
		else
			CHECK(rank < other || stats.landed >= MOST);
		CHECK(stats.landed <= stats.moved);
	}
	MPI_Type_free(&every_third);
	return end("lanes");
}
