/* Calls that may be made at any time, or with which a trace begins: they stand in it, too. */
#include "check.h"

int main(int argc, char **argv)
{
	MPI_Session session;
	MPI_Status status;
	void *memory;
	int flag;
	CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
	begin(&argc, &argv);
	CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag);
	CHECK(MPI_Wtime() > 0);
	CHECK(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory) == MPI_SUCCESS);
	CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
	CHECK(MPI_Status_set_cancelled(&status, 1) == MPI_SUCCESS);
	CHECK(MPI_Test_cancelled(&status, &flag) == MPI_SUCCESS && flag);
	CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
	return end("traced");
}
