/* A word goes round while all ranks ask for it in loops, by each of the calls that only ask, and wait in none. Where there are more ranks than cores, the one whose turn it is
 * gets a core only if those that ask in vain give theirs away. Prints what the fastest batch took for a step, in microseconds. */
#include "check.h"

enum { BATCHES = 15, ROUNDS = 2, CALLS = 8 };

/* The word from `from`, by the nth of the calls. */
static int ask(int nth, int from)
{
	MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Message message;
	int word = 0, flag = 0, place, places[2];

	if (nth < 2) {
		while (!flag)
			if (nth == 0)
				MPI_Iprobe(from, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
			else
				MPI_Improbe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
		if (nth == 0)
			MPI_Recv(&word, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
		return word;
	}
	MPI_Irecv(&word, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[0]);
	while (!flag)
		switch (nth) {
		case 2:
			MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
			break;
		case 3:
			MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
			break;
		case 4:
			MPI_Testany(2, requests, &place, &flag, MPI_STATUS_IGNORE);
			break;
		case 5:
			MPI_Testsome(2, requests, &flag, places, MPI_STATUSES_IGNORE);
			break;
		case 6:
			MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
			break;
		default:
			MPI_Request_get_status_any(2, requests, &place, &flag, MPI_STATUS_IGNORE);
			break;
		}
	if (requests[0] != MPI_REQUEST_NULL)
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	return word;
}

int main(int argc, char **argv)
{
	double least = 1e9;

	begin(&argc, &argv);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	for (int batch = 0; batch < BATCHES; batch++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double begun = MPI_Wtime();
		for (int i = 0; i < ROUNDS * CALLS; i++) {
			int word = batch * 1000 + i;
			if (rank == 0)
				MPI_Send(&word, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
			CHECK(ask(i % CALLS, before) == word);
			if (rank != 0)
				MPI_Send(&word, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
		}
		double took = (MPI_Wtime() - begun) * 1e6 / (ROUNDS * CALLS * size);
		least = took < least ? took : least;
	}
	if (rank == 0)
		printf("asks: %.1f us a step\n", least);
	return end("asks");
}
