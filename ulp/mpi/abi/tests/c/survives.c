/* A rank dies. Where all others have chosen MPI_ERRORS_RETURN, what names it ends with MPI_ERR_PROC_ABORTED, and they go on without it. With an argument each leaves when it knows. */
#include "check.h"
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

enum { BLOCK = 3000000 };

#define ABORTED(call) CHECK(class_of(call) == MPI_ERR_PROC_ABORTED)

/* A request that can never be over says so, at its beginning if the death is known then. */
static void ends(int code, MPI_Request *request)
{
	if (code == MPI_SUCCESS)
		code = MPI_Wait(request, MPI_STATUS_IGNORE);
	ABORTED(code);
}

int main(int argc, char **argv)
{
	int value = 0, got = -1, last, mine, sum;
	char *large, *many;
	MPI_Group all, left;
	MPI_Comm half, rest;
	MPI_Request requests[2], again;
	MPI_Status status;

	begin(&argc, &argv);
	last = size - 1;
	CHECK(size >= 3);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &half);
	large = malloc(1 << 20);
	memset(large, rank, 1 << 20);
	many = malloc((size_t)size * 2 * BLOCK);
	memset(many, rank, (size_t)size * 2 * BLOCK);
	CHECK(MPI_Alltoall_init(many, BLOCK, MPI_CHAR, many + (size_t)size * BLOCK, BLOCK, MPI_CHAR, MPI_COMM_WORLD, MPI_INFO_NULL, &again) == MPI_SUCCESS);
	if (rank == last) {
		value = 77;
		CHECK(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
		MPI_Barrier(MPI_COMM_WORLD);
		usleep(1000);
		raise(SIGKILL);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	/* A collective of long messages that is under way when the rank dies. Nothing comes to its memory once it has failed. */
	ABORTED(MPI_Alltoall(many, BLOCK, MPI_CHAR, many + (size_t)size * BLOCK, BLOCK, MPI_CHAR, MPI_COMM_WORLD));
	if (argc > 1) {
		/* Who has left answers nobody. */
		if (rank == 1)
			printf("survives: %d ranks: ok\n", size);
		CHECK(MPI_Finalize() == MPI_SUCCESS);
		return 0;
	}
	ABORTED(MPI_Start(&again));
	CHECK(MPI_Request_free(&again) == MPI_SUCCESS);
	memset(many, 99, (size_t)size * 2 * BLOCK);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
	for (long i = 0; i < (long)size * 2 * BLOCK; i++)
		CHECK(many[i] == 99);
	free(many);
	if (rank == 0) {
		/* Waits that it can never end, of every kind. */
		ends(MPI_Irecv(&got, 1, MPI_INT, last, 2, MPI_COMM_WORLD, &requests[0]), &requests[0]);
		/* Of anybody there may still be a message: the request stays (mpi-ext.h). */
		CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
		CHECK(class_of(MPI_Wait(&requests[1], MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED_PENDING);
		CHECK(MPI_Cancel(&requests[1]) == MPI_SUCCESS && MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
		ABORTED(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status));
		/* What it has sent before is there. */
		CHECK(MPI_Recv(&got, 1, MPI_INT, last, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS && got == 77);
		ABORTED(MPI_Probe(last, 9, MPI_COMM_WORLD, &status));
	} else if (rank == 1) {
		ABORTED(MPI_Recv(&got, 1, MPI_INT, last, 2, MPI_COMM_WORLD, &status));
		ABORTED(MPI_Send(&got, 1, MPI_INT, last, 2, MPI_COMM_WORLD));
		ABORTED(MPI_Ssend(large, 1 << 20, MPI_CHAR, last, 2, MPI_COMM_WORLD));
	}
	/* Collectives of those with it, however far each has come. */
	ABORTED(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	ABORTED(MPI_Barrier(MPI_COMM_WORLD));
	/* A communicator without it goes on, and one of the survivors can be made. */
	if (rank < 2) {
		CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half) == MPI_SUCCESS && sum == 1);
		if (rank == 0)
			CHECK(MPI_Send(large, 1 << 20, MPI_CHAR, 1, 4, MPI_COMM_WORLD) == MPI_SUCCESS);
		else
			CHECK(MPI_Recv(large, 1 << 20, MPI_CHAR, 0, 4, MPI_COMM_WORLD, &status) == MPI_SUCCESS && large[99] == 0);
		/* Who cannot receive from the dead has sent nothing meanwhile. */
		for (value = 1; value <= 3; value++) {
			if (rank == 1) {
				CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &status) == MPI_SUCCESS && got == value);
				continue;
			}
			sum = -value;
			ABORTED(MPI_Sendrecv(&sum, 1, MPI_INT, 1, 6, &got, 1, MPI_INT, last, 6, MPI_COMM_WORLD, &status));
			CHECK(MPI_Send(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD) == MPI_SUCCESS);
		}
		/* Who cannot send to the dead receives nothing meanwhile. */
		if (rank == 1) {
			sum = -1;
			ABORTED(MPI_Sendrecv(&value, 1, MPI_INT, last, 8, &sum, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &status));
			ABORTED(MPI_Sendrecv_replace(&sum, 1, MPI_INT, last, 8, 0, 8, MPI_COMM_WORLD, &status));
			ABORTED(MPI_Isendrecv(&value, 1, MPI_INT, last, 8, &sum, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &requests[0]));
			CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &status) == MPI_SUCCESS && got == 88 && sum == -1);
		} else {
			value = 88;
			CHECK(MPI_Send(&value, 1, MPI_INT, 1, 8, MPI_COMM_WORLD) == MPI_SUCCESS);
		}
	}
	free(large);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_excl(all, 1, &last, &left);
	CHECK(MPI_Comm_create_group(MPI_COMM_WORLD, left, 5, &rest) == MPI_SUCCESS);
	MPI_Comm_rank(rest, &mine);
	CHECK(mine == rank);
	for (int i = 0; i < 100; i++)
		CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, rest) == MPI_SUCCESS && sum == (size - 1) * (size - 2) / 2);
	MPI_Comm_free(&rest);
	MPI_Group_free(&left);
	MPI_Group_free(&all);
	if (rank == 0)
		printf("survives: %d ranks: ok\n", size);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
