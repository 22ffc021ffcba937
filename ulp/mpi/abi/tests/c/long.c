/* Long messages, which both sides of a host may copy: every length around the chunks, senders that wait, that compute and that receive at the same time, windows, receives that are
   too short or have gaps. What is received is compared byte by byte, and what lies around it. */
#include "check.h"

enum { CHUNK = 256 << 10, LONGEST = 5 * CHUNK + 4096, WINDOW = 6, EDGE = 64 };

static unsigned char *room[2 * WINDOW];

static unsigned char *at(int place, int skip)
{
	return room[place] + EDGE + skip;
}

static void compare(int place, int skip, int length, int salt)
{
	CHECK(holds(at(place, skip), length, salt));
	CHECK(at(place, skip)[-1] == 0xee && at(place, skip)[length] == 0xee);
}

static void clear(int place)
{
	memset(room[place], 0xee, LONGEST + 2 * EDGE);
}

/* A while without MPI. */
static volatile unsigned spun;
static void compute(void)
{
	for (unsigned i = 0; i < 3000000; i++)
		spun += i;
}

static void one_way(int other, int length, int skip, int busy)
{
	if (rank < other) {
		MPI_Request request;
		fill(at(0, skip), length, length);
		MPI_Isend(at(0, skip), length, MPI_BYTE, other, 1, MPI_COMM_WORLD, &request);
		if (busy)
			compute();
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		clear(1);
		MPI_Recv(at(1, skip), length, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		compare(1, skip, length, length);
	}
}

static void both_ways(int other, int length)
{
	MPI_Request requests[2 * WINDOW];
	for (int i = 0; i < WINDOW; i++) {
		fill(at(i, 0), length - i, length + i + rank);
		clear(WINDOW + i);
		MPI_Irecv(at(WINDOW + i, 0), length - i, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[i]);
		MPI_Isend(at(i, 0), length - i, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[WINDOW + i]);
	}
	MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < WINDOW; i++)
		compare(WINDOW + i, 0, length - i, length + i + other);
}

static void too_short(int other, int length)
{
	if (rank < other) {
		fill(at(0, 0), length, 5);
		MPI_Ssend(at(0, 0), length, MPI_BYTE, other, 3, MPI_COMM_WORLD);
	} else {
		MPI_Status status;
		int code, count;
		clear(1);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		code = MPI_Recv(at(1, 0), length - 1000, MPI_BYTE, other, 3, MPI_COMM_WORLD, &status);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(class_of(code) == MPI_ERR_TRUNCATE && count == length - 1000);
		compare(1, 0, length - 1000, 5);
	}
}

static void gaps(int other, int length)
{
	MPI_Datatype pairs;
	MPI_Type_vector(length / 4, 2, 4, MPI_BYTE, &pairs);
	MPI_Type_commit(&pairs);
	int half = length / 4 * 2;
	if (rank < other) {
		fill(at(0, 0), half, 9);
		MPI_Send(at(0, 0), half, MPI_BYTE, other, 4, MPI_COMM_WORLD);
	} else {
		clear(1);
		MPI_Recv(at(1, 0), 1, pairs, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < half; i++)
			CHECK(at(1, 0)[i / 2 * 4 + i % 2] == pattern(i, 9));
	}
	MPI_Type_free(&pairs);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	int other = rank ^ 1;
	for (int i = 0; i < 2 * WINDOW; i++)
		CHECK((room[i] = malloc(LONGEST + 2 * EDGE)) != NULL);
	static const int lengths[] = { CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK - 17, 5 * CHUNK + 1000 };
	for (int round = 0; round < 5 && other < size; round++)
		for (int i = 0; i < 6; i++) {
			one_way(other, lengths[i], round, 0);
			one_way(other, lengths[i], round, 1);
			both_ways(other, lengths[i]);
			too_short(other, lengths[i]);
			gaps(other, lengths[i]);
		}
	for (int i = 0; i < 2 * WINDOW; i++)
		free(room[i]);
	return end("long");
}
