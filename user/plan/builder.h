/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* builder: a plan while it is made; shared by the files of plan/. */
#ifndef MT_PLAN_BUILDER_H
#define MT_PLAN_BUILDER_H

#include "base/index.h"
#include "plan/plan.h"
#include "plan/schema.h"
#include "plan/usdt.h"
#include "target/elf.h"
#include "target/target.h"

#define PLAN_SITES_MAX (1u << 16)
#define PLAN_NOTES_MAX 64
#define CATALOG_ROWS_MAX 128

struct plan_cache;

/* --- facts of a file, wherever it is mapped (addresses are its own) -------------------------------------- */

#define FLOW_CLASSES_CNT 16

struct flow_facts {
	uint32_t has_class; /* bits */
	uint64_t classes[FLOW_CLASSES_CNT]; /* vtables */
	int64_t storage, meta, variable;    /* fields of TensorImpl and AccumulateGrad; -1: none */
	int optional;			    /* enum callconv_optional; -1: none is named */
	struct code_fields resized;	    /* fields of StorageImpl that are touched when it is resized */
	int has_old_strings;		    /* std::string has 8 bytes in torch's objects */
	int has_schemas;		    /* c10::FunctionSchema's fields are where boxed.c has them */
	int64_t list_tag;		    /* an IValue's tag for a list; -1: unknown */
	uint64_t py_node;		    /* vtable of PyNode, 0: none … */
	int64_t py_node_object;		    /* … and the place of its Python object; -1: unknown */
	uint16_t node_saved, saved_bytes;   /* as struct mt_flow_layout has them */
};

struct host_facts {
	uint8_t has_malloc, is_libc, has_reallocarray;
};

/* A class whose objects are read, or at least are tensors: facts have one bit and one address for each. */
struct flow_class {
	const char *symbol; /* of its vtable */
	enum mt_class class;
};
extern const struct flow_class flow_classes[];
extern const size_t flow_classes_cnt;

struct file_facts {
	struct elf_layout code;
	uint8_t is_static, is_stripped;
	struct host_facts host;
	struct flow_facts flow;
};

/* --- a plan in the making ------------------------------------------------------------------------------ */

/* A mapped file, once it was opened: plan/files.h. */
struct open_lib;

struct builder {
	struct plan *plan; /* being filled: a process's, or that of one file, without libs and in the file's addresses */
	struct target *target;
	struct names *names;
	unsigned sources;
	struct insn_classes classes;
	int has_guards; /* guards of operators are needed */
	size_t sites_cap, vtables_cap;
	struct plan_cache *cache;
	const int *stop;
	struct open_lib *opened; /* of the process's libraries */
	size_t opened_cnt, fds_cnt;
	uint64_t read_bytes, kept_bytes, cpu_from_ns; /* of files; kept: of those that are still open */
	/* the present library, while a file's plan is made */
	const struct lib *lib;
	const struct elf *elf;
	/* the malloc family's owner, chosen before; NULL: none */
	const struct lib *host_lib;
	/* The C library, if the owner has no reallocarray: that one calls the owner's realloc, or fails by itself. */
	const struct lib *reallocarray_lib;
	struct usdt_pattern *patterns; /* the user's first, then the known ones */
	size_t patterns_cnt;
	uint8_t rows_found[CATALOG_ROWS_MAX]; /* row i of the catalog */
	uint32_t gpu_found; /* functions of the GPUs' memory API */
	uint32_t ops_found, views_found, flow_wanted, flow_found;
	struct index by_flow_spec; /* of plan->flow_specs */
	int flow_optional;    /* enum callconv_optional */
	int flow_waits, flow_late; /* torch's libraries without c10's: planned once that is there */
	uint32_t exe_is_static, exe_is_stripped;
	int boxed_found;     /* this library has a function that boxed calls pass */
	uint32_t unsafe_cnt; /* of this library: sites where this kernel cannot probe without harm */
	char unsafe_first[128];
};

/* Adds a site to the current library; sym is filled in. 0 or -errno. A site too many for the plan is a note, not an error. */
int builder__add_site(struct builder *b, const struct site *site, const char *sym);
/* place.c */
/*
 * The cheapest safe instruction where all that is needed is still in place. -ENOTSUP: none, counted; -EINVAL: unreadable code.
 */
int builder__place(struct builder *b, const struct elf_sym *sym, const char *shown, const struct prologue_need *need,
		   struct site *site);
void builder__fill(const struct builder *b, const struct prologue_site *at, uint64_t offset, struct site *site);
void builder__leave_out(struct builder *b, const char *shown);
void builder__note_left_out(struct builder *b); /* at the end of a library */
int builder__add_vtable(struct builder *b, uint64_t addr, const char *name);
/* The same for sites and vtables whose names and places are known. */
int builder__put_site(struct builder *b, const struct lib *lib, const struct site *site);
int builder__put_vtable(struct builder *b, uint64_t addr, name_id name);
/* Facts of the file of one of the target's libraries; NULL: not available. Valid while the plan is made. */
const struct file_facts *builder__facts(struct builder *b, const struct lib *lib);
/* Sorts the sites in the order in which they are set; once all are there. */
void plan__sort(struct plan *p);
int plan__list_guards(struct plan *p); /* after that: 0 or -ENOMEM */
/* One sentence about what will not be visible. */
void builder__note(struct builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void builder__cover(struct builder *b, enum source source, uint32_t wanted, uint32_t found);

/* facts.c */
void file_facts__learn(struct file_facts *ret, unsigned sources, const struct lib *lib, const struct elf *e);

/* files.c */
void builder__close_all(struct builder *b);

/* finds.c */
/* Adds everything of one mapped file to the plan; 0 also for a file that has to be left out. */
int builder__plan_lib(struct builder *b, const struct lib *lib, struct err *err);

/* rename.c: ids of one table of names as ids of another. */
struct name_map {
	uint32_t *ids;
	uint32_t last;
};
int name_map__init(struct name_map *m, const struct names *from, struct names *to); /* 0 or -ENOMEM */
void name_map__done(struct name_map *m);
name_id name_map__to(const struct name_map *m, name_id id);
void name_map__site(const struct name_map *m, struct site *s);

/* catalog.c */
int catalog__plan_lib(struct builder *b);
void catalog__cover(struct builder *b);
/* host.c */
int host__choose(struct builder *b, struct err *err); /* b->host_lib, b->reallocarray_lib */
/* flow.c */
/* Tensor classes and their layout, over all libraries; removes SRC_FLOW when there is none. */
int flow__begin(struct builder *b, struct err *err);
/*
 * Index of the spec of an operator's arguments in plan->flow_specs; -ENOMEM. schema may be NULL. is_always_read: also the
 * tensors that an enclosing operator was given.
 */
int flow__spec(struct builder *b, const char *mangled, const struct schema *s, int is_always_read);
/* Number of an equal spec in the plan, added if there is none; -ENOSPC, -ENOMEM. */
int flow__intern_spec(struct builder *b, const struct mt_flow_spec *s);
/* boxed.c */
void boxed__learn(struct flow_facts *ret, const struct elf *e, const struct lib *lib);
/* Adds to the layout what is read of boxed calls; nothing, unless it fits a known version. */
void boxed__layout(const struct flow_facts *f, struct mt_flow_layout *ret);
/* Functions in .symtab that boxed calls pass: their names, and (at) their numbers for boxed__plan_local(). Returns how many. */
#define BOXED_NAMES_MAX 2
size_t boxed__names(const struct lib *lib, const char *names[BOXED_NAMES_MAX], size_t at[BOXED_NAMES_MAX]);
int boxed__plan_local(struct builder *b, size_t entry, const struct elf_sym *sym);
/* For the whole plan: removes the regions' own probes where they are not needed. by_windows: struct plan_opts. */
void boxed__take_regions(struct plan *p, int by_windows);
/* catalog_gpu.c */
int gpu__add_spec(struct plan *plan, const struct mt_seg_spec *spec); /* index of an equal one, added if need be; -ENOMEM */
void gpu__at(struct plan *plan, const struct lib *lib); /* where this process has a communication library mapped */
int gpu__plan_lib(struct builder *b);
size_t gpu__names(const char **ret, size_t max); /* names of functions to look for in .symtab … */
int gpu__plan_local(struct builder *b, size_t name, const struct elf_sym *sym); /* … with `sym` as one of them */
void gpu__cover(struct builder *b);
/* ops.c */
int ops__plan_lib(struct builder *b);
/* usdt.c */
int usdt__add_spec(struct plan *plan, const struct mt_usdt_spec *spec); /* index of an equal one, added if need be; -ENOSPC */

#endif
