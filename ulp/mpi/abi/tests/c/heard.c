/* A window of long messages: their receiver hears of them as they come, not of all when the last has come. Whether it does is seen in how often it has something to do. */
#include "check.h"

enum { LENGTH = 512 << 10, WINDOW = 32, WINDOWS = 20, LEAST = 16 };

static char bytes[WINDOW][LENGTH];

/* How many times some of a window's messages had come. */
static int window(void)
{
	MPI_Request requests[WINDOW];
	int times = 0, left = WINDOW;
	for (int i = 0; i < WINDOW; i++) {
		if (rank == 0)
			CHECK(MPI_Isend(bytes[i], LENGTH, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
		else
			CHECK(MPI_Irecv(bytes[i], LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
	}
	while (left > 0) {
		int count, indices[WINDOW];
		CHECK(MPI_Waitsome(WINDOW, requests, &count, indices, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		CHECK(count > 0 && count <= left);
		left -= count;
		times++;
	}
	return times;
}

int main(int argc, char **argv)
{
	int most = 0;
	begin(&argc, &argv);
	/* A receiver that has to wait for a core hears of several at a time. */
	for (int i = 0; rank < 2 && i < WINDOWS; i++) {
		int times = window();
		if (times > most)
			most = times;
	}
	CHECK(rank != 1 || most >= LEAST);
	return end("heard");
}
