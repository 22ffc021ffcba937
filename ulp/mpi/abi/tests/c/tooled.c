/* What a tool of its own library sees: one message to itself and one communicator. Collectives' own messages are none of the program's. */
#include "check.h"

int main(int argc, char **argv)
{
	int value = rank;
	MPI_Comm other;
	MPI_Request request;
	begin(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Isend(&value, 1, MPI_INT, rank, 0, other, &request);
	MPI_Recv(&value, 1, MPI_INT, rank, 0, other, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Irecv(&value, 1, MPI_INT, rank, 0, other, &request);
	MPI_Send(&value, 1, MPI_INT, rank, 0, other);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, other);
	MPI_Comm_free(&other);
	return end("tooled");
}
