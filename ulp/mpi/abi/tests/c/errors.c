/* Wrong arguments under MPI_ERRORS_RETURN: the standard's class comes back, and work goes on. */
#include "check.h"

/* What is sent may not lie where something is received, unless MPI_IN_PLACE says so, or there is nothing of it, or the elements lie between one another. */
static void aliased(MPI_Comm comm)
{
	int *both = calloc(2 * size, sizeof *both), other = 1, four[4] = { 1, 2, 3, 4 };
	MPI_Datatype even, odd;
	MPI_Request request;

	CHECK(class_of(MPI_Allreduce(both, both, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Allreduce(both, both, 2 * size, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Iallreduce(both, both, 1, MPI_INT, MPI_SUM, comm, &request)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Scan(both, both, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Reduce_scatter_block(both, both, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Alltoall(both, 1, MPI_INT, both, 1, MPI_INT, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Allgather(&both[rank], 1, MPI_INT, both, 1, MPI_INT, comm)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Iallgather(both, 1, MPI_INT, both, 1, MPI_INT, comm, &request)) == MPI_ERR_BUFFER);
	if (rank == 0) {
		CHECK(class_of(MPI_Reduce(both, both, 1, MPI_INT, MPI_SUM, 0, comm)) == MPI_ERR_BUFFER);
		CHECK(class_of(MPI_Gather(both, 1, MPI_INT, both, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
		CHECK(class_of(MPI_Scatter(both, 1, MPI_INT, both, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
	}
	CHECK(class_of(MPI_Reduce_local(both, both, 1, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Reduce_local(MPI_IN_PLACE, both, 1, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
	CHECK(class_of(MPI_Reduce_local(both, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);

	CHECK(MPI_Allreduce(both, both, 0, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
	CHECK(MPI_Reduce_local(both, both, 0, MPI_INT, MPI_SUM) == MPI_SUCCESS);
	CHECK(MPI_Allreduce(&other, both, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && both[0] == size);
	CHECK(MPI_Allreduce(MPI_IN_PLACE, both, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && both[0] == size * size);
	CHECK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, both, 1, MPI_INT, comm) == MPI_SUCCESS);
	CHECK(MPI_Type_vector(2, 1, 2, MPI_INT, &even) == MPI_SUCCESS);
	CHECK(MPI_Type_create_indexed_block(2, 1, (int[]){ 1, 3 }, MPI_INT, &odd) == MPI_SUCCESS);
	CHECK(MPI_Type_commit(&even) == MPI_SUCCESS && MPI_Type_commit(&odd) == MPI_SUCCESS);
	CHECK(MPI_Alltoall(four, 1, even, four, 1, odd, MPI_COMM_SELF) == MPI_SUCCESS);
	CHECK(four[0] == 1 && four[1] == 1 && four[2] == 3 && four[3] == 3);
	MPI_Type_free(&even);
	MPI_Type_free(&odd);
	free(both);
}

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
	aliased(comm);
	return end("errors");
}
