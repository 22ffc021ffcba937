/*
 * Services at subnet administration, on a host of a fabric:
 *   services register NAME NUMBER   says that this host's port has the service
 *   services find NAME_OR_NUMBER    prints the numbers of all that there are, asked in two ways
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Headers of rdma-core before 57 do not have them. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

#define BY_SA 0x10
#define RESOLVED 16
#define MUST(condition)                                                         \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "%d: %s (%s)\n", __LINE__, #condition,  \
				strerror(errno));                               \
			exit(1);                                                \
		}                                                               \
	} while (0)

static struct ibv_port_attr port;
static union ibv_gid gid;

static void learn(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	MUST(list && list[0]);
	context = ibv_open_device(list[0]);
	MUST(context && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid));
}

/* A SubnAdm Set(ServiceRecord), by libibumad. */
static void say(const char *name, uint64_t number)
{
	void *library = dlopen("libibumad.so.3", RTLD_NOW);
	int (*open_port)(const char *, int) = dlsym(library, "umad_open_port");
	int (*enter)(int, int, int, uint8_t, long *) = dlsym(library, "umad_register");
	int (*send)(int, int, void *, int, int, int) = dlsym(library, "umad_send");
	int (*receive)(int, void *, int *, int) = dlsym(library, "umad_recv");
	int (*address)(void *, int, int, int, int) = dlsym(library, "umad_set_addr");
	void *(*packet)(void *) = dlsym(library, "umad_get_mad");
	size_t (*head)(void) = dlsym(library, "umad_size");
	long none[128 / (8 * sizeof(long))] = { 0 };
	uint64_t wide = htobe64(number), mask = htobe64(0x47);
	uint16_t key = htobe16(0xffff), attribute = htobe16(0x31);
	int fd, agent, length = 256;
	uint8_t *mad;
	void *umad;

	MUST(library && head);
	fd = open_port(NULL, 0);
	MUST(fd >= 0);
	agent = enter(fd, 3, 2, 0, none);
	MUST(agent >= 0);
	umad = calloc(1, head() + 256);
	MUST(umad && !address(umad, port.sm_lid, 1, port.sm_sl, 0x80010000));
	mad = packet(umad);
	mad[0] = 1, mad[1] = 3, mad[2] = 2, mad[3] = 2, mad[15] = 1;
	memcpy(mad + 16, &attribute, 2);
	memcpy(mad + 48, &mask, 8);
	memcpy(mad + 56, &wide, 8);
	memcpy(mad + 64, &gid, 16);
	memcpy(mad + 80, &key, 2);
	strncpy((char *)mad + 104, name, 63);
	MUST(!send(fd, agent, umad, 256, 2000, 3));
	MUST(receive(fd, umad, &length, 5000) >= 0);
	mad = packet(umad);
	MUST(mad[3] == 0x81 && !mad[4] && !mad[5]);
}

static void print(struct rdma_addrinfo *info)
{
	for (struct rdma_addrinfo *at = info; at; at = at->ai_next) {
		struct sockaddr_ib *to = (struct sockaddr_ib *)at->ai_dst_addr, *from = (struct sockaddr_ib *)at->ai_src_addr;

		MUST(at->ai_family == AF_IB && to->sib_family == AF_IB);
		MUST(!memcmp(&from->sib_addr, &gid, 16) && memcmp(&to->sib_addr, &gid, 16));
		MUST(be16toh(to->sib_pkey) == 0xffff);
		printf("%#llx ", (unsigned long long)be64toh(to->sib_sid));
	}
	printf("\n");
	rdma_freeaddrinfo(info);
}

static void find(const char *service)
{
	struct rdma_addrinfo hints = { .ai_flags = BY_SA }, *info;
	struct sockaddr_ib own = { .sib_family = AF_IB };
	struct rdma_cm_event *event;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	memcpy(&own.sib_addr, &gid, 16);
	MUST(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_IB));
	MUST(!rdma_bind_addr(id, (struct sockaddr *)&own));
	MUST(!rdma_resolve_addrinfo(id, NULL, service, &hints));
	MUST(!rdma_get_cm_event(channel, &event));
	if (event->event != RESOLVED) {
		MUST(rdma_getaddrinfo(NULL, service, &hints, &info) == -1);
		printf("%d %d\n", event->status, errno);
	} else {
		MUST(!rdma_query_addrinfo(id, &info));
		print(info);
		MUST(!rdma_getaddrinfo(NULL, service, &hints, &info));
		print(info);
	}
	rdma_ack_cm_event(event);
	MUST(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	learn();
	MUST(argc == 4 || argc == 3);
	if (argc == 4)
		say(argv[2], strtoull(argv[3], NULL, 0));
	else
		find(argv[2]);
	return 0;
}
