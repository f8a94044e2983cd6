/* config.json of Hugging Face and the section `model`. */
#include <string.h>

#include "base/ct_err.h"
#include "tests/harness/ct_test.h"
#include "weights/hf/ct_hf.h"

static int translate(const char *text, ct_str_t *out)
{
  ct_str_clear(out);
  return ct_hf_translate("d/config.json", text, strlen(text), out);
}

static void keys_become_those_of_the_family(void)
{
  static const char *const cases[][2] = {
      {"{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_inner\": null, \"resid_pdrop\": 0.1}",
       "{family: gpt2, vocab: 50257, context: 1024, dim: 768, depth: 2, heads: 12, "
       "activation: gelu_tanh, eps: 1e-05, tie: yes, input: [1024], classes: 50257}\n"},
      {"{\"model_type\": \"gpt2\", \"vocab_size\": 9, \"n_positions\": 4, \"n_embd\": 6, "
       "\"n_head\": 3, \"n_inner\": 20, \"activation_function\": \"gelu\", "
       "\"layer_norm_epsilon\": 1e-6, \"tie_word_embeddings\": false}",
       "{family: gpt2, vocab: 9, context: 4, dim: 6, depth: 12, heads: 3, hidden: 20, "
       "activation: gelu, eps: 1e-06, tie: no, input: [4], classes: 9}\n"},
      {"{\"model_type\": \"llama\", \"num_key_value_heads\": 8, \"rope_theta\": 500000.0, "
       "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
       "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}",
       "{family: llama, vocab: 32000, context: 2048, dim: 4096, depth: 32, heads: 32, "
       "kv_heads: 8, hidden: 11008, eps: 1e-06, bias: no, tie: no, rope_theta: 500000, "
       "rope_scaling: llama3, rope_factor: 8, rope_low: 1, rope_high: 4, rope_context: 8192, "
       "input: [2048], classes: 32000}\n"},
      {"{\"model_type\": \"llama\", \"head_dim\": 64, \"rope_parameters\": "
       "{\"rope_type\": \"linear\", \"rope_theta\": 20000, \"factor\": 2}}",
       "{family: llama, vocab: 32000, context: 2048, dim: 4096, depth: 32, heads: 32, "
       "head_dim: 64, hidden: 11008, eps: 1e-06, bias: no, tie: no, rope_theta: 20000, "
       "rope_scaling: linear, rope_factor: 2, input: [2048], classes: 32000}\n"},
      {"{\"model_type\": \"esm\", \"vocab_size\": 33, \"layer_norm_eps\": 1e-05, "
       "\"position_embedding_type\": \"rotary\", \"token_dropout\": true, \"mask_token_id\": 32}",
       "{family: esm2, vocab: 33, context: 1026, dim: 768, depth: 12, heads: 12, hidden: 3072, "
       "eps: 1e-05, rope_theta: 10000, token_dropout: yes, mask_id: 32, pad_id: 1, "
       "input: [1026], classes: 33}\n"}};
  ct_str_t got = {0}, again = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_yaml_t *model = NULL;
    json_t *o = NULL;
    CT_ASSERT_OK(translate(cases[i][0], &got));
    CT_ASSERT_TEXT(got.data, cases[i][1]);
    CT_ASSERT_OK(ct_yaml_parse(got.data, got.len, "section", &model));
    CT_ASSERT_OK(ct_hf_describe(model, &o));
    char *text = json_dumps(o, 0);
    CT_ASSERT_OK(translate(text, &again));
    CT_ASSERT_TEXT(again.data, cases[i][1]);
    free(text);
    json_decref(o);
    ct_yaml_free(model);
  }
  ct_str_clear(&got);
  ct_str_clear(&again);
}

#define GPT2  "{\"model_type\": \"gpt2\", "
#define LLAMA "{\"model_type\": \"llama\", "

static void what_no_family_has_is_refused_by_name(void)
{
  static const char *const cases[][2] = {
      {"[]", "its JSON is a list"},
      {"{\"n_layer\": 1}", "model_type is missing, expected gpt2, llama or esm"},
      {"{\"model_type\": \"mi\\u007fstral\"}", "model_type is \"mi?stral\", expected gpt2"},
      {GPT2 "\"scale_attn_weights\": false}", "scale_attn_weights is false"},
      {GPT2 "\"scale_attn_by_inverse_layer_idx\": true}", "expected false"},
      {GPT2 "\"add_cross_attention\": true}", "add_cross_attention is true"},
      {GPT2 "\"n_layer\": 1.5}", "n_layer is 1.5, expected an integer from 1 to 2^30"},
      {GPT2 "\"n_head\": -1}", "n_head is -1, expected an integer"},
      {GPT2 "\"activation_function\": \"relu\"}", "activation_function is \"relu\", expected"},
      {GPT2 "\"layer_norm_epsilon\": 0}", "layer_norm_epsilon is 0, expected a number above 0"},
      {GPT2 "\"tie_word_embeddings\": 1}", "tie_word_embeddings is 1, expected true or false"},
      {GPT2 "\"quantization_config\": {}}", "quantized weights are not read"},
      {LLAMA "\"hidden_act\": \"gelu\"}", "hidden_act is \"gelu\""},
      {LLAMA "\"attention_bias\": true}", "attention_bias is true and mlp_bias is false"},
      {LLAMA "\"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5"},
      {LLAMA "\"rope_scaling\": {\"type\": \"yarn\"}}", "rope_type of rope_scaling is \"yarn\""},
      {LLAMA "\"rope_scaling\": {}}", "rope_type of rope_scaling is missing"},
      {LLAMA "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 2}}",
       "low_freq_factor is missing"},
      {"{\"model_type\": \"esm\"}", "vocab_size is missing"},
      {"{\"model_type\": \"esm\", \"position_embedding_type\": \"absolute\"}",
       "position_embedding_type is \"absolute\""}};
  ct_str_t got = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CT_ASSERT_FAILS(translate(cases[i][0], &got), CT_ERR_FORMAT, cases[i][1]);
    CT_ASSERT_HAS(ct_err_last()->text, "d/config.json: ");
  }
  ct_str_clear(&got);
}

static void a_family_that_transformers_lacks_is_refused(void)
{
  static const char *const cases[][2] = {
      {"{family: resnet}", "model.family is 'resnet'"},
      {"{family: gpt2, activation: relu}", "model.activation is relu"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_yaml_t *model = NULL;
    json_t *o = NULL;
    CT_ASSERT_OK(ct_yaml_parse(cases[i][0], strlen(cases[i][0]), "section", &model));
    CT_ASSERT_FAILS(ct_hf_describe(model, &o), CT_ERR_USAGE, cases[i][1]);
    CU_ASSERT_PTR_NULL(o);
    ct_yaml_free(model);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(keys_become_those_of_the_family), CT_TEST(what_no_family_has_is_refused_by_name),
      CT_TEST(a_family_that_transformers_lacks_is_refused), CT_TEST_END};
  return ct_test_main("hf", tests, argc, argv);
}
