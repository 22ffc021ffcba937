/* Calls when MPI may not be used, and one more MPI_Init: the initial error handler says what becomes of them. With an argument only one call before MPI_Init. */
#include "check.h"

static int handled;

static void handler(MPI_Session *session, int *code, ...)
{
	(void)session;
	if (class_of(*code) == MPI_ERR_ARG)
		handled++;
}

static void cannot(void)
{
	int value;
	CHECK(class_of(MPI_Comm_rank(MPI_COMM_WORLD, &value)) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF)) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_Barrier(MPI_COMM_WORLD)) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_Finalize()) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_Win_free(NULL)) != MPI_SUCCESS);
	CHECK(class_of(MPI_File_delete("x", MPI_INFO_NULL)) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN)) == MPI_ERR_OTHER);
	/* One that may be made at any time, but not so. */
	CHECK(class_of(MPI_Add_error_code(999999, &value)) == MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
	int provided, flag;
	MPI_Errhandler own;
	MPI_Session session;
	if (argc > 1) {
		MPI_Barrier(MPI_COMM_WORLD);
		return 0;
	}
	cannot();
	CHECK(class_of(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL)) == MPI_ERR_ARG);
	CHECK(MPI_Session_create_errhandler(handler, &own) == MPI_SUCCESS);
	CHECK(class_of(MPI_Session_init(MPI_INFO_NULL, own, NULL)) == MPI_ERR_ARG && handled == 1);
	CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);
	CHECK(class_of(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &session)) == MPI_ERR_ERRHANDLER);
	CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && !flag);
	begin(&argc, &argv);
	CHECK(class_of(MPI_Init(&argc, &argv)) == MPI_ERR_OTHER);
	CHECK(class_of(MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided)) == MPI_ERR_OTHER);
	/* What the program gives MPI_COMM_SELF goes with the world, although a session is left. */
	CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL) == MPI_SUCCESS);
	CHECK(end("outside") == 0);
	CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &flag)) == MPI_ERR_TYPE);
	CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
	CHECK(class_of(MPI_Init(&argc, &argv)) == MPI_ERR_OTHER);
	cannot();
	return 0;
}
