/* What a Fortran face says of its compiler is said once and found again. */
#include "check.h"

int main(int argc, char **argv)
{
	int yes = 1, no = 0, got_yes = -1, got_no = -1, is_set = -1, flag;
	char value[16];
	MPI_Info info, found;
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Abi_get_fortran_info(&found) == MPI_SUCCESS && found == MPI_INFO_NULL);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_integer_size", "8");
	CHECK(class_of(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI);
	MPI_Info_set(info, "mpi_integer_size", "4");
	MPI_Info_set(info, "mpi_logical_size", "4");
	CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
	CHECK(class_of(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI);
	MPI_Info_free(&info);
	CHECK(MPI_Abi_get_fortran_info(&found) == MPI_SUCCESS && found != MPI_INFO_NULL);
	int room = sizeof value;
	MPI_Info_get_string(found, "mpi_integer_size", &room, value, &flag);
	CHECK(flag && !strcmp(value, "4"));
	MPI_Info_free(&found);
	CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS && !is_set && got_yes == -1);
	CHECK(class_of(MPI_Abi_set_fortran_booleans(3, &yes, &no)) == MPI_ERR_ARG);
	CHECK(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
	CHECK(class_of(MPI_Abi_set_fortran_booleans(4, &yes, &no)) == MPI_ERR_ABI);
	CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS);
	CHECK(is_set && got_yes == yes && got_no == no);
	return end("fortran");
}
