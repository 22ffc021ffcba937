/* Devices, contexts and what can be asked of them. */
#include "check.h"
#include <arpa/inet.h>

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, unsigned int *type);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static void strangers(struct ibv_device *device)
{
	struct ibv_device stranger = { 0 };

	REFUSED(ibv_open_device(NULL), EINVAL);
	REFUSED(ibv_open_device(&stranger), ENODEV);
	EQ(ibv_get_device_index(&stranger), -1);
	EQ(ibv_get_device_guid(&stranger), 0);
	/* Providers look for their own data right behind the structure. */
	const unsigned char *tail = (const unsigned char *)(device + 1);

	for (int i = 0; i < 128; i++)
		EQ(tail[i], 0);
}

static void attributes(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex extended;
	struct ibv_query_device_ex_input future = { .comp_mask = 1 };

	memset(&attr, 0xff, sizeof(attr));
	EQ(ibv_query_device(context, &attr), 0);
	CHECK(attr.node_guid == ibv_get_device_guid(context->device));
	CHECK(attr.max_qp > 0 && attr.max_qp_wr > 0 && attr.max_sge > 0);
	CHECK(attr.vendor_id != 0 && attr.vendor_id != 0x2c9 && attr.vendor_id != 0x1d0f);
	CHECK(strnlen(attr.fw_ver, sizeof(attr.fw_ver)) < sizeof(attr.fw_ver));
	EQ(ibv_query_device_ex(context, NULL, &extended), 0);
	EQ(memcmp(&attr, &extended.orig_attr, offsetof(struct ibv_device_attr, phys_port_cnt) + 1), 0);
	EQ(extended.hca_core_clock, 1000000);
	CHECK(extended.odp_caps.general_caps & IBV_ODP_SUPPORT);
	EQ(extended.phys_port_cnt_ex, attr.phys_port_cnt);
	EQ(ibv_query_device_ex(context, &future, &extended), EINVAL);
	/* An old header's structure: what lies behind it is not touched. */
	struct verbs_context *vctx = verbs_get_ctx(context);

	CHECK(vctx);
	memset(&extended, 0x5a, sizeof(extended));
	EQ(vctx->query_device_ex(context, NULL, &extended, sizeof(extended.orig_attr)), 0);
	EQ(((unsigned char *)&extended)[sizeof(extended.orig_attr)], 0x5a);
	EQ(vctx->query_device_ex(context, NULL, &extended, 8), EINVAL);
}

#undef ibv_query_port
static void ports(struct ibv_context *context)
{
	struct ibv_port_attr attr, old;
	struct verbs_context *vctx = verbs_get_ctx(context);

	EQ(vctx->query_port(context, 1, &attr, sizeof(attr)), 0);
	EQ(attr.state, IBV_PORT_ACTIVE);
	EQ(attr.link_layer, IBV_LINK_LAYER_INFINIBAND);
	CHECK(attr.lid != 0 && attr.lid < 0xc000);
	CHECK(attr.gid_tbl_len >= 1 && attr.pkey_tbl_len >= 1);
	EQ(vctx->query_port(context, 0, &attr, sizeof(attr)), EINVAL);
	EQ(vctx->query_port(context, 2, &attr, sizeof(attr)), EINVAL);
	/* The exported function knows the shorter structure. */
	memset(&old, 0x5a, sizeof(old));
	EQ(ibv_query_port(context, 1, (struct _compat_ibv_port_attr *)&old), 0);
	EQ(old.lid, attr.lid);
	EQ(old.port_cap_flags2, 0x5a5a);
	EQ(context->ops._compat_query_port(context, 1, (struct _compat_ibv_port_attr *)&old), 0);
}

static void tables(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);
	struct ibv_gid_entry entry, all[256];
	struct ibv_port_attr port;
	union ibv_gid gid;
	unsigned int type = 9;
	__be16 pkey = 0;

	EQ(vctx->query_port(context, 1, &port, sizeof(port)), 0);
	EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	EQ(memcmp(&gid, &entry.gid, sizeof(gid)), 0);
	EQ(entry.gid_type, IBV_GID_TYPE_IB);
	EQ(entry.port_num, 1);
	EQ(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	EQ(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	EQ(ibv_query_gid(context, 2, 0, &gid), -1);
	EQ(ibv_query_gid_type(context, 1, 0, &type), 0);
	EQ(type, 0);
	ssize_t count = ibv_query_gid_table(context, all, 256, 0);

	CHECK(count >= 1 && count <= port.gid_tbl_len);
	EQ(memcmp(&all[0].gid, &gid, sizeof(gid)), 0);
	EQ(ibv_query_gid_table(context, all, 0, 0), -EINVAL);

	EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
	EQ(ntohs(pkey), 0xffff);
	EQ(ibv_get_pkey_index(context, 1, pkey), 0);
	EQ(ibv_get_pkey_index(context, 1, htons(0x8123)), -1);
	EQ(ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey), -1);
}

static void clock_runs(struct ibv_context *context)
{
	struct ibv_values_ex first = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK }, second = first;

	EQ(ibv_query_rt_values_ex(context, &first), 0);
	EQ(first.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	EQ(ibv_query_rt_values_ex(context, &second), 0);
	CHECK(second.raw_clock.tv_nsec >= first.raw_clock.tv_nsec && first.raw_clock.tv_nsec > 0);
}

static void files(struct ibv_device *device)
{
	char text[64];
	__be64 guid = ibv_get_device_guid(device);
	const unsigned char *g = (const unsigned char *)&guid;
	char expected[64];

	snprintf(expected, sizeof(expected), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4],
		 g[5], g[6], g[7]);
	EQ(ibv_read_sysfs_file(device->ibdev_path, "node_guid", text, sizeof(text)), 19);
	CHECK(!strcmp(text, expected));
	CHECK(ibv_read_sysfs_file(device->ibdev_path, "ports/1/gids/0", text, sizeof(text)) == 39);
	CHECK(ibv_read_sysfs_file(device->ibdev_path, "ports/1/pkeys/0", text, sizeof(text)) == 6);
	CHECK(!strcmp(text, "0xffff"));
	CHECK(ibv_read_sysfs_file(device->dev_path, "ibdev", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, ibv_get_device_name(device)));
	EQ(ibv_read_sysfs_file(device->ibdev_path, "ports/9/state", text, sizeof(text)), -1);
}

/* What the adapter does not offer says so, through every inlined function that reaches it. */
static void not_offered(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_wq_init_attr wq = { 0 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };

	REFUSED(ibv_create_counters(context, &counters), EOPNOTSUPP);
	REFUSED(ibv_create_wq(context, &wq), EOPNOTSUPP);
	REFUSED(ibv_create_rwq_ind_table(context, &table), EOPNOTSUPP);
	REFUSED(ibv_alloc_null_mr(pd), EOPNOTSUPP);
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0), EOPNOTSUPP);
	uint8_t mac[6];
	struct ibv_ah_attr attr = { .port_num = 1 };

	EQ(ibv_resolve_eth_l2_from_gid(context, &attr, mac, NULL), -EINVAL);
}

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count >= 1);
	strangers(list[0]);
	files(list[0]);
	CHECK(ibv_get_device_index(list[0]) >= 0);
	EQ(list[0]->node_type, IBV_NODE_CA);
	EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
	struct ibv_device *first = list[0];

	ibv_free_device_list(list);
	struct ibv_context *context = ibv_open_device(first);

	CHECK(context && context->device == first);
	CHECK(context->cmd_fd >= 0 && context->async_fd >= 0 && context->num_comp_vectors >= 1);
	attributes(context);
	ports(context);
	tables(context);
	clock_runs(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	CHECK(pd);
	not_offered(context, pd);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
