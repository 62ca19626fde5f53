/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/offsets.h"

#include <stddef.h>

static const struct py_frame_offsets table[] = {
	{ .minor = 10,
	  .interp_head = 32, .interp_next = 0, .interp_threads = 8,
	  .tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 176, .tstate_frame = 24,
	  .frame_previous = 24, .frame_code = 32, .frame_instr = 96, .frame_self = 352, .frame_bytes = 104,
	  .code_firstlineno = 40, .code_filename = 104, .code_name = 112, .code_qualname = 112, .code_linetable = 120,
	  .code_check = 96, .str_ascii = 48, .str_other = 72 },
	{ .minor = 11,
	  .interp_head = 40, .interp_next = 0, .interp_threads = 16,
	  .tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 152, .tstate_frame = 56,
	  .has_cframe = 1, .cframe_frame = 8,
	  .frame_previous = 48, .frame_code = 32, .frame_instr = 56, .frame_owner = 69, .frame_entry = 68,
	  .frame_self = 72, .frame_bytes = 80,
	  .code_firstlineno = 72, .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_linetable = 136,
	  .code_check = 112, .code_bytecode = 184, .str_ascii = 48, .str_other = 72 },
	{ .minor = 12,
	  .interp_head = 40, .interp_next = 0, .interp_threads = 72,
	  .tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 136, .tstate_frame = 56,
	  .has_cframe = 1, .cframe_frame = 0,
	  .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70, .frame_self = 72, .frame_bytes = 80,
	  .owner_shim = 3,
	  .code_firstlineno = 68, .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_linetable = 136,
	  .code_check = 112, .code_bytecode = 192, .str_ascii = 40, .str_other = 56 },
	{ .minor = 13,
	  .interp_head = 632, .interp_next = 7264, .interp_threads = 7344,
	  .tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 152, .tstate_frame = 72,
	  .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70, .frame_self = 72, .frame_bytes = 80,
	  .owner_shim = 3,
	  .code_firstlineno = 68, .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_linetable = 136,
	  .code_check = 112, .code_bytecode = 200, .str_ascii = 40, .str_other = 56 },
};

const struct py_frame_offsets *py_frame_offsets(unsigned minor)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].minor == minor)
			return &table[i];
	return NULL;
}
