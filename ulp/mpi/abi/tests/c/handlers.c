/* Which error handler is asked: MPI_FILE_NULL's by calls of input and output, the session's or communicator's that a call is about, MPI_COMM_SELF's otherwise. With an
 * argument errors of files end the job. */
#include "check.h"

static int comm_calls, file_calls, session_calls, last;
static MPI_Comm last_comm;
static MPI_File last_file;

static void on_comm(MPI_Comm *comm, int *code, ...)
{
	comm_calls++;
	last_comm = *comm;
	last = *code;
}

static void on_file(MPI_File *file, int *code, ...)
{
	file_calls++;
	last_file = *file;
	last = *code;
}

static void on_session(MPI_Session *session, int *code, ...)
{
	(void)session;
	session_calls++;
	last = *code;
}

/* The call fails with the class, and the handler of this communicator alone is asked, once. */
#define ASKS(call, error, asked) \
	do { \
		int comms_ = comm_calls, files_ = file_calls, sessions_ = session_calls, code_ = (call); \
		CHECK(class_of(code_) == (error)); \
		CHECK(comm_calls == comms_ + 1 && file_calls == files_ && session_calls == sessions_); \
		CHECK(last_comm == (asked) && class_of(last) == (error)); \
	} while (0)

/* The call fails with the class, and MPI_FILE_NULL's handler alone is asked, once. */
#define ASKS_FILES(call, error) \
	do { \
		int comms_ = comm_calls, files_ = file_calls, sessions_ = session_calls, code_ = (call); \
		CHECK(class_of(code_) == (error)); \
		CHECK(file_calls == files_ + 1 && comm_calls == comms_ && session_calls == sessions_); \
		CHECK(last_file == MPI_FILE_NULL && class_of(last) == (error)); \
	} while (0)

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *state)
{
	(void)type;
	(void)state;
	*bytes = 1;
	return MPI_SUCCESS;
}

static void call_files(void)
{
	MPI_File file = (MPI_File)(uintptr_t)5, none = MPI_FILE_NULL;
	MPI_Status status;
	MPI_Request request;
	MPI_Offset offset;
	MPI_Info info;
	MPI_Errhandler found;
	char byte = 0;
	int error = MPI_ERR_UNSUPPORTED_OPERATION;
	ASKS_FILES(MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), error);
	CHECK(file == MPI_FILE_NULL);
	ASKS_FILES(MPI_File_open(MPI_COMM_NULL, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), error);
	ASKS_FILES(PMPI_File_open(MPI_COMM_SELF, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), error);
	ASKS_FILES(MPI_File_delete("x", MPI_INFO_NULL), error);
	ASKS_FILES(MPI_File_close(&none), error);
	ASKS_FILES(MPI_File_read(MPI_FILE_NULL, &byte, 1, MPI_BYTE, &status), error);
	ASKS_FILES(MPI_File_iwrite_at_c(MPI_FILE_NULL, 0, &byte, 1, MPI_BYTE, &request), error);
	ASKS_FILES(MPI_File_get_size((MPI_File)(uintptr_t)5, &offset), error);
	ASKS_FILES(MPI_File_get_info(MPI_FILE_NULL, &info), error);
	CHECK(info == MPI_INFO_NULL);
	ASKS_FILES(MPI_Register_datarep("own", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, NULL), error);
	ASKS_FILES(MPI_Register_datarep_c("own", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, extent, NULL), error);
	ASKS_FILES(MPI_File_set_errhandler((MPI_File)(uintptr_t)5, MPI_ERRORS_RETURN), MPI_ERR_FILE);
	ASKS_FILES(MPI_File_get_errhandler((MPI_File)(uintptr_t)5, &found), MPI_ERR_FILE);
	ASKS_FILES(MPI_File_call_errhandler((MPI_File)(uintptr_t)5, MPI_ERR_IO), MPI_ERR_FILE);
	ASKS_FILES(MPI_File_get_errhandler(MPI_FILE_NULL, NULL), MPI_ERR_ARG);
}

/* Files begin with MPI_ERRORS_RETURN whatever communicators have; MPI_FILE_NULL names what all of them begin with. */
static void files(MPI_Errhandler comms)
{
	MPI_Errhandler own, other, found;
	MPI_File file;
	int calls = comm_calls;
	CHECK(MPI_File_get_errhandler(MPI_FILE_NULL, &found) == MPI_SUCCESS && found == MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_UNSUPPORTED_OPERATION);
	CHECK(class_of(MPI_File_delete("x", MPI_INFO_NULL)) == MPI_ERR_UNSUPPORTED_OPERATION);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, comms);
	CHECK(comm_calls == calls);
	CHECK(MPI_File_create_errhandler(on_file, &own) == MPI_SUCCESS);
	CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, own) == MPI_SUCCESS);
	CHECK(MPI_File_get_errhandler(MPI_FILE_NULL, &found) == MPI_SUCCESS && found == own);
	CHECK(MPI_Errhandler_free(&found) == MPI_SUCCESS && found == MPI_ERRHANDLER_NULL);
	/* Only the file's use of it is left. */
	CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);
	call_files();
	/* Not of this kind: it stays as it is. */
	ASKS_FILES(MPI_File_set_errhandler(MPI_FILE_NULL, comms), MPI_ERR_ERRHANDLER);
	ASKS_FILES(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
	calls = file_calls;
	CHECK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO) == MPI_SUCCESS);
	CHECK(file_calls == calls + 1 && last == MPI_ERR_IO && last_file == MPI_FILE_NULL);
	CHECK(MPI_File_create_errhandler(on_file, &other) == MPI_SUCCESS);
	ASKS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, other), MPI_ERR_ERRHANDLER, MPI_COMM_WORLD);
	CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, other) == MPI_SUCCESS);
	CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	CHECK(MPI_Errhandler_free(&other) == MPI_SUCCESS);
	calls = file_calls;
	CHECK(class_of(MPI_File_delete("x", MPI_INFO_NULL)) == MPI_ERR_UNSUPPORTED_OPERATION);
	CHECK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO) == MPI_SUCCESS);
	CHECK(file_calls == calls);
	ASKS(MPI_File_create_errhandler(NULL, &other), MPI_ERR_ARG, MPI_COMM_SELF);
}

static int copies(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
	(void)comm, (void)keyval, (void)state, (void)in, (void)out;
	*flag = 0;
	return MPI_SUCCESS;
}

/* Nothing with a handler is named, or what is named is nothing. */
static void nowhere(void)
{
	int value = 0, flag, other = MPI_KEYVAL_INVALID;
	char text[MPI_MAX_PORT_NAME];
	double real = 0;
	MPI_Count count;
	MPI_Aint place = 0;
	MPI_Datatype type = MPI_DATATYPE_NULL;
	MPI_Group group = MPI_GROUP_NULL;
	MPI_Info info = MPI_INFO_NULL;
	MPI_Op op = MPI_OP_NULL;
	MPI_Request request = (MPI_Request)(uintptr_t)0x12345678, none = MPI_REQUEST_NULL;
	MPI_Message message = MPI_MESSAGE_NULL;
	MPI_Status status;
	MPI_Comm comm = MPI_COMM_NULL;
	MPI_Session session = MPI_SESSION_NULL;
	MPI_Win window = MPI_WIN_NULL;
	MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
	ASKS(MPI_Type_commit(&type), MPI_ERR_TYPE, MPI_COMM_SELF);
	ASKS(MPI_Type_size(MPI_DATATYPE_NULL, &value), MPI_ERR_TYPE, MPI_COMM_SELF);
	ASKS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, MPI_COMM_SELF);
	ASKS(MPI_Type_get_extent_c(MPI_DATATYPE_NULL, &count, &count), MPI_ERR_TYPE, MPI_COMM_SELF);
	ASKS(MPI_Type_free_keyval(&other), MPI_ERR_KEYVAL, MPI_COMM_SELF);
	ASKS(MPI_Comm_free_keyval(&other), MPI_ERR_KEYVAL, MPI_COMM_SELF);
	ASKS(MPI_Comm_create_keyval(copies, MPI_COMM_NULL_DELETE_FN, NULL, NULL), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Group_size(MPI_GROUP_NULL, &value), MPI_ERR_GROUP, MPI_COMM_SELF);
	ASKS(MPI_Group_free(&group), MPI_ERR_GROUP, MPI_COMM_SELF);
	ASKS(MPI_Info_free(&info), MPI_ERR_INFO, MPI_COMM_SELF);
	ASKS(MPI_Info_set(MPI_INFO_NULL, "key", "value"), MPI_ERR_INFO, MPI_COMM_SELF);
	ASKS(MPI_Op_free(&op), MPI_ERR_OP, MPI_COMM_SELF);
	ASKS(MPI_Op_commutative(MPI_OP_NULL, &flag), MPI_ERR_OP, MPI_COMM_SELF);
	ASKS(MPI_Reduce_local(&value, &other, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP, MPI_COMM_SELF);
	ASKS(MPI_Pack_external("unknown", &value, 1, MPI_INT, text, sizeof text, &place), MPI_ERR_UNSUPPORTED_DATAREP, MPI_COMM_SELF);
	ASKS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Request_free(&none), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Cancel(&none), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Start(&none), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Mrecv(&value, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, MPI_COMM_SELF);
	ASKS(MPI_Errhandler_free(&handler), MPI_ERR_ERRHANDLER, MPI_COMM_SELF);
	ASKS(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Session_create_errhandler(NULL, &handler), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Add_error_code(999999, &value), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Dims_create(6, 1, &(int){ 4 }), MPI_ERR_DIMS, MPI_COMM_SELF);
	ASKS(MPI_Alloc_mem(-1, MPI_INFO_NULL, &request), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Buffer_attach(text, -1), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Buffer_detach(&request, &value), MPI_ERR_BUFFER, MPI_COMM_SELF);
	ASKS(MPI_Status_set_cancelled(NULL, 1), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Test_cancelled(NULL, &flag), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Status_get_tag(NULL, &flag), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Get_processor_name(NULL, &value), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Get_version(NULL, &value), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Query_thread(NULL), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Initialized(NULL), MPI_ERR_ARG, MPI_COMM_SELF);
	ASKS(MPI_Abi_get_version(NULL, NULL), MPI_ERR_ARG, MPI_COMM_SELF);
	/* Handles of nothing. */
	ASKS(MPI_Comm_rank(MPI_COMM_NULL, &value), MPI_ERR_COMM, MPI_COMM_SELF);
	ASKS(MPI_Comm_free(&comm), MPI_ERR_COMM, MPI_COMM_SELF);
	ASKS(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, MPI_COMM_SELF);
	ASKS(MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM, MPI_COMM_SELF);
	ASKS(MPI_Session_finalize(&session), MPI_ERR_SESSION, MPI_COMM_SELF);
	ASKS(MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &value), MPI_ERR_SESSION, MPI_COMM_SELF);
	/* What is not offered: no window is there. */
	ASKS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF);
	ASKS(MPI_Win_free(&window), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF);
	ASKS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF);
	ASKS(MPI_Open_port(MPI_INFO_NULL, text), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF);
	ASKS(MPI_Lookup_name("name", MPI_INFO_NULL, text), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF);
	ASKS(MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION,
	     MPI_COMM_WORLD);
	ASKS(MPI_Win_create(&real, sizeof real, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_WORLD);
}

/* What is named has a handler. */
static void objects(void)
{
	int value = 0, keyval = MPI_KEYVAL_INVALID;
	MPI_Comm made, grid;
	MPI_Request request;
	MPI_Comm_dup(MPI_COMM_WORLD, &made);
	ASKS(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, MPI_COMM_WORLD);
	ASKS(MPI_Bcast(&value, 1, MPI_INT, size, made), MPI_ERR_ROOT, made);
	ASKS(MPI_Comm_set_attr(made, keyval, NULL), MPI_ERR_KEYVAL, made);
	ASKS(MPI_Cart_create(made, 1, &value, &value, -3, NULL), MPI_ERR_ARG, made);
	ASKS(MPI_Cart_create(made, -1, &value, &value, 0, &grid), MPI_ERR_DIMS, made);
	ASKS(MPI_Comm_set_info(made, (MPI_Info)(uintptr_t)5), MPI_ERR_INFO, made);
	ASKS(MPI_Comm_split(made, -7, 0, &grid), MPI_ERR_ARG, made);
	ASKS(MPI_Psend_init(&value, -1, 1, MPI_INT, 0, 0, made, MPI_INFO_NULL, &request), MPI_ERR_ARG, made);
	ASKS(MPI_Psend_init(&value, 8, (MPI_Count)1 << 61, MPI_BYTE, 0, 0, made, MPI_INFO_NULL, &request), MPI_ERR_COUNT, made);
	ASKS(MPI_Precv_init(&value, 8, (MPI_Count)1 << 61, MPI_BYTE, 0, 0, made, MPI_INFO_NULL, &request), MPI_ERR_COUNT, made);
	ASKS(MPI_Psend_init_c(&value, 1, 5 - ((MPI_Count)1 << 32), MPI_BYTE, 0, 0, made, MPI_INFO_NULL, &request), MPI_ERR_COUNT, made);
	ASKS(MPI_Precv_init_c(&value, 1, 5 - ((MPI_Count)1 << 32), MPI_BYTE, 0, 0, made, MPI_INFO_NULL, &request), MPI_ERR_COUNT, made);
	ASKS(MPI_Comm_attach_buffer(made, NULL, -1), MPI_ERR_ARG, made);
	CHECK(MPI_Comm_call_errhandler(made, MPI_ERR_TOPOLOGY) == MPI_SUCCESS && last_comm == made && last == MPI_ERR_TOPOLOGY);
	/* A request's errors are its communicator's. */
	CHECK(MPI_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, made, MPI_INFO_NULL, &request) == MPI_SUCCESS);
	ASKS(MPI_Pready(0, request), MPI_ERR_REQUEST, made);
	CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
	MPI_Comm_free(&made);
}

/* The handler that a communicator or session is to have is the call's, too. */
static void given(MPI_Errhandler comms)
{
	MPI_Errhandler sessions;
	MPI_Session session, none;
	MPI_Group group = MPI_GROUP_NULL;
	MPI_Comm made;
	int value, calls;
	CHECK(MPI_Session_create_errhandler(on_session, &sessions) == MPI_SUCCESS);
	CHECK(MPI_Session_init(MPI_INFO_NULL, sessions, &session) == MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	calls = session_calls;
	CHECK(class_of(MPI_Session_init(MPI_INFO_NULL, sessions, NULL)) == MPI_ERR_ARG && session_calls == ++calls);
	CHECK(class_of(MPI_Session_init((MPI_Info)(uintptr_t)5, sessions, &none)) == MPI_ERR_INFO && session_calls == ++calls);
	CHECK(class_of(MPI_Group_from_session_pset(session, "mpi://nowhere", &group)) != MPI_SUCCESS && session_calls == ++calls);
	CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &value, NULL)) == MPI_ERR_ARG && session_calls == ++calls);
	CHECK(class_of(MPI_Session_attach_buffer(session, NULL, -1)) == MPI_ERR_ARG && session_calls == ++calls);
	CHECK(class_of(MPI_Session_set_errhandler(session, comms)) == MPI_ERR_ERRHANDLER && session_calls == ++calls);
	CHECK(MPI_Session_call_errhandler(session, MPI_ERR_IO) == MPI_SUCCESS && session_calls == ++calls && last == MPI_ERR_IO);
	CHECK(MPI_Group_from_session_pset(session, "mpi://SELF", &group) == MPI_SUCCESS);
	ASKS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "tag", MPI_INFO_NULL, comms, &made), MPI_ERR_GROUP, MPI_COMM_NULL);
	ASKS(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, comms, &made), MPI_ERR_ARG, MPI_COMM_NULL);
	ASKS(MPI_Comm_create_from_group(group, "tag", (MPI_Info)(uintptr_t)5, comms, &made), MPI_ERR_INFO, MPI_COMM_NULL);
	ASKS(MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, comms, NULL), MPI_ERR_ARG, MPI_COMM_NULL);
	CHECK(class_of(MPI_Comm_create_from_group(MPI_GROUP_NULL, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made)) == MPI_ERR_GROUP);
	ASKS(MPI_Intercomm_create_from_groups(MPI_GROUP_NULL, 0, group, 0, "tag", MPI_INFO_NULL, comms, &made), MPI_ERR_GROUP, MPI_COMM_NULL);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, comms);
	ASKS(MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, sessions, &made), MPI_ERR_ERRHANDLER, MPI_COMM_SELF);
	CHECK(MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, comms, &made) == MPI_SUCCESS);
	ASKS(MPI_Send(&value, 1, MPI_INT, 7, 0, made), MPI_ERR_RANK, made);
	CHECK(MPI_Comm_free(&made) == MPI_SUCCESS && MPI_Group_free(&group) == MPI_SUCCESS);
	CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && MPI_Errhandler_free(&sessions) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	MPI_Errhandler handler;
	begin(&argc, &argv);
	if (argc > 1) {
		/* Ends the job. */
		MPI_File_set_errhandler(MPI_FILE_NULL, strcmp(argv[1], "abort") == 0 ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL);
		MPI_File_delete("x", MPI_INFO_NULL);
		return end("handlers");
	}
	CHECK(MPI_Comm_create_errhandler(on_comm, &handler) == MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	files(handler);
	nowhere();
	objects();
	given(handler);
	CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
	return end("handlers");
}
