/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* object_head: how objects and strings begin, the same in CPython 3.10 to 3.13. For code.c and objects.c. */
#ifndef MT_PYTHON_OBJECT_HEAD_H
#define MT_PYTHON_OBJECT_HEAD_H

#define OB_TYPE 8
#define OB_SIZE 16
#define STR_LENGTH 16
#define STR_STATE 32
#define STR_KIND(state) ((state) >> 2 & 7) /* bytes a character */
#define STR_COMPACT(state) ((state) >> 5 & 1)
#define STR_ASCII(state) ((state) >> 6 & 1)

#endif
