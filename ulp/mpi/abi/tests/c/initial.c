/* Which error handler communicators begin with; where errors return, one that has no communicator returns, too. */
#include "check.h"

static const char *name_of(MPI_Comm comm)
{
	MPI_Errhandler handler;
	CHECK(MPI_Comm_get_errhandler(comm, &handler) == MPI_SUCCESS);
	return handler == MPI_ERRORS_RETURN ? "return" : handler == MPI_ERRORS_ABORT ? "abort" : handler == MPI_ERRORS_ARE_FATAL ? "fatal" : "?";
}

int main(int argc, char **argv)
{
	int value = 0;
	MPI_Comm copy;
	begin(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	if (rank == 0)
		printf("%s %s %s\n", name_of(MPI_COMM_WORLD), name_of(MPI_COMM_SELF), name_of(copy));
	if (!strcmp(name_of(MPI_COMM_SELF), "return")) {
		CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &value)) == MPI_ERR_COMM);
		CHECK(class_of(MPI_Send(&value, 1, MPI_INT, size, 0, copy)) == MPI_ERR_RANK);
	}
	MPI_Comm_free(&copy);
	return end("initial");
}
