/*
 * Entry points of the oldest interface (2006) and of providers' old registration call.
 *
 * Programs linked against libibverbs 1.0 pass structures of another layout, so these must never reach the
 * current functions. The old ibv_get_device_list returns no devices, and whatever else is called says
 * "operation not supported"; the three answers are functions of src/private.rs. `.symver` gives each its version
 * node; the linker's map is made from symbols.txt.
 */
	.text

.macro OLD name:req, node:req, answer:req
	.type	ferriband_old_\name, @function
ferriband_old_\name:
	.cfi_startproc
	jmp	\answer@PLT
	.cfi_endproc
	.size	ferriband_old_\name, . - ferriband_old_\name
	.globl	ferriband_old_\name
	.symver	ferriband_old_\name, \name@\node
.endm

	OLD	ibv_ack_async_event, IBVERBS_1.0, ferriband_old_returns_nothing
	OLD	ibv_ack_cq_events, IBVERBS_1.0, ferriband_old_returns_nothing
	OLD	ibv_alloc_pd, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_attach_mcast, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_close_device, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_create_ah, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_create_cq, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_create_qp, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_create_srq, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_dealloc_pd, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_dereg_mr, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_destroy_ah, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_destroy_cq, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_destroy_qp, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_destroy_srq, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_detach_mcast, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_free_device_list, IBVERBS_1.0, ferriband_old_returns_nothing
	OLD	ibv_get_async_event, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_get_cq_event, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_get_device_guid, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_get_device_list, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_get_device_name, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_modify_qp, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_modify_srq, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_open_device, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_query_device, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_query_gid, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_query_pkey, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_query_port, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_query_qp, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_query_srq, IBVERBS_1.0, ferriband_old_returns_error
	OLD	ibv_reg_mr, IBVERBS_1.0, ferriband_old_returns_null
	OLD	ibv_register_driver, IBVERBS_1.1, ferriband_old_returns_nothing
	OLD	ibv_resize_cq, IBVERBS_1.0, ferriband_old_returns_error

	.section .note.GNU-stack,"",@progbits
