/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR LGPL-2.1-only */
/*
 * arg_names: the kind of an operator's tensor by the name of its argument (PyTorch 2.13, native_functions.yaml): for plans,
 * which read schemas as text, and for BPF, which reads those of boxed calls.
 *
 * Weights: names under which modules of torch.nn pass their parameters: most, recurrent ones (mkldnn_rnn_layer_backward counts
 * from one), their cells, a Transformer's layer at inference.
 */
#ifndef MT_ARG_NAMES_H
#define MT_ARG_NAMES_H

/* NUL included: as much as a std::string keeps in itself. */
#define MT_ARG_NAME_BYTES 16

#define MT_ARG_WEIGHTS(X)                                                                                                 \
	X("weight") X("bias") X("params") X("w_ih") X("w_hh") X("b_ih") X("b_hh") X("weight0") X("weight1") X("weight2")  \
	X("weight3") X("weight4") X("qkv_weight") X("qkv_bias") X("proj_weight") X("proj_bias") X("norm_weight_1")        \
	X("norm_bias_1") X("norm_weight_2") X("norm_bias_2") X("ffn_weight_1") X("ffn_bias_1") X("ffn_weight_2")          \
	X("ffn_bias_2")
#define MT_ARG_RUNNING(X) X("running_mean") X("running_var")

#endif
