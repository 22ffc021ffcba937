/* Wrong arguments under MPI_ERRORS_RETURN: the standard's class comes back, and work goes on. */
#include "check.h"

int main(int argc, char **argv)
{
	int value = 0, class, length, flag;
	char text[MPI_MAX_ERROR_STRING];
	MPI_Comm comm = MPI_COMM_WORLD, made = MPI_COMM_WORLD;
	MPI_Request request = (MPI_Request)(uintptr_t)0x12345678;
	MPI_Win window = (MPI_Win)(uintptr_t)5;
	MPI_File file = (MPI_File)(uintptr_t)5;
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Send(&value, -1, MPI_INT, 0, 0, comm)) == MPI_ERR_COUNT);
	CHECK(class_of(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm)) == MPI_ERR_TYPE);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, size, 0, comm)) == MPI_ERR_RANK);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, -7, 0, comm)) == MPI_ERR_RANK);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, -5, comm)) == MPI_ERR_TAG);
	CHECK(class_of(MPI_Send(NULL, 1, MPI_INT, 0, 0, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL)) == MPI_ERR_COMM);
	CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, 0, (MPI_Comm)&value)) == MPI_ERR_COMM);
	CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, size, 0, comm, MPI_STATUS_IGNORE)) == MPI_ERR_RANK);
	CHECK(class_of(MPI_Bcast(&value, 1, MPI_INT, size, comm)) == MPI_ERR_ROOT);
	CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_REQUEST);
	CHECK(class_of(MPI_Comm_free(&made)) == MPI_ERR_COMM);
	/* What is not offered says so, by the handler of its object, and leaves null handles. */
	CHECK(class_of(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &window)) == MPI_ERR_UNSUPPORTED_OPERATION);
	CHECK(window == MPI_WIN_NULL);
	CHECK(class_of(MPI_File_open(comm, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_UNSUPPORTED_OPERATION);
	CHECK(file == MPI_FILE_NULL);
	CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &value) == MPI_T_ERR_CANNOT_INIT);
	for (int code = 0; code <= MPI_ERR_ABI; code++) {
		CHECK(MPI_Error_class(code, &class) == MPI_SUCCESS && class == code);
		CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length == (int)strlen(text) && length > 0);
	}
	/* Handles and their numbers. */
	CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
	CHECK(MPI_Type_toint(MPI_INT) == 0x209);
	CHECK(MPI_Aint_diff(MPI_Aint_add((MPI_Aint)&value, 12), (MPI_Aint)&value) == 12);
	request = MPI_REQUEST_NULL;
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag);
	return end("errors");
}
