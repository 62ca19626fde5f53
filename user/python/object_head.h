/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* object_head: where things lie in objects, the same in CPython 3.10 to 3.13. */
#ifndef MT_PYTHON_OBJECT_HEAD_H
#define MT_PYTHON_OBJECT_HEAD_H

#define OB_TYPE 8
#define OB_SIZE 16
#define MODULE_DICT 16
#define FUNCTION_CODE 48
#define TYPE_DICT 264
#define TYPE_MRO 344
#define STR_LENGTH 16
#define STR_STATE 32
#define STR_KIND(state) ((state) >> 2 & 7) /* bytes a character */
#define STR_COMPACT(state) ((state) >> 5 & 1)
#define STR_ASCII(state) ((state) >> 6 & 1)

#endif
