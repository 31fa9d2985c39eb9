import test from 'ava';
import type { AskAnswer, AskBackend } from '../../../shared/fleet/ask-backend.ts';
import { askFacts, modelNamesAt } from '../../../shared/fleet/backend-facts.ts';
import type { Backend } from '../../../shared/plan-file/plan-file.ts';
import { parsedPlan } from '../../support/parsed-plan.ts';

const backend: Backend = { url: 'http://a/v1', location: 'on-prem' };

type Answers = Record<string, unknown>;

/** A backend that answers these paths with JSON or with a text, and all others with 404. */
function asking(answers: Answers, headers: AskAnswer['headers'] = {}) {
  const asked: string[] = [];
  const ask: AskBackend = async (_backend, { path }) => {
    asked.push(path);
    const answer = answers[path];
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
    return { status: answer === undefined ? 404 : 200, headers, text };
  };
  return { ask, asked };
}

const factsOf = (answers: Answers, names: readonly string[], headers?: AskAnswer['headers']) =>
  askFacts(asking(answers, headers).ask, backend, names);
const list = (...data: object[]) => ({ object: 'list', data });

test('vLLM, SGLang, llama.cpp, Ollama and providers say what they are, and how much context they have', async (t) => {
  const vllm = list({ id: 'llama', object: 'model', owned_by: 'vllm', max_model_len: 32_768 });
  t.deepEqual(await factsOf({ '/v1/models': vllm, '/version': { version: '0.33.0' } }, ['llama']), {
    ...{ engine: 'vLLM 0.33.0', models: ['llama'], missing: [], contextTokens: 32_768, slots: undefined },
  });
  const sglang = list({ id: 'llama', owned_by: 'sglang', max_model_len: 8_192 });
  const info = { version: '0.5.23', max_running_requests: 48 };
  t.like(await factsOf({ '/v1/models': sglang, '/get_server_info': info }, ['llama']), {
    ...{ engine: 'SGLang 0.5.23', contextTokens: 8_192, slots: 48 },
  });
  const llama = list({ id: '/models/a.gguf', owned_by: 'llamacpp', meta: { n_ctx: 4_096, n_ctx_train: 131_072 } });
  const props = { total_slots: 4, build_info: 'b7000-abc', chat_template: 'x' };
  t.like(await factsOf({ '/v1/models': llama, '/props': props }, ['llama', 'other']), {
    ...{ engine: 'llama.cpp b7000-abc', contextTokens: 4_096, slots: 4, missing: [], models: ['/models/a.gguf'] },
  });
  const ollama = list({ id: 'llama:8b', owned_by: 'library' });
  t.like(await factsOf({ '/v1/models': ollama, '/api/version': { version: '0.33.0' } }, ['llama:8b']), {
    ...{ engine: 'Ollama 0.33.0', contextTokens: undefined },
  });
  const provider = list({ id: 'a/small', context_length: 1_000 }, { id: 'a/large', context_length: 2_000 });
  t.like(await factsOf({ '/v1/models': provider }, ['a/small'], { server: 'cloud-front' }), {
    ...{ engine: 'cloud-front', contextTokens: 1_000, missing: [] },
  });
});

test('only an engine that is known is asked for more, and what it does not say is left out', async (t) => {
  const unknown = asking({ '/v1/models': list({ id: 'm', owned_by: 'someone' }) });
  t.like(await askFacts(unknown.ask, backend, ['m']), { engine: 'unknown server', slots: undefined });
  t.deepEqual(unknown.asked, ['/v1/models']);
  const silent = asking({ '/v1/models': list({ id: 'm', owned_by: 'vllm' }) });
  t.like(await askFacts(silent.ask, backend, ['m']), { engine: 'vLLM', contextTokens: undefined });
  t.deepEqual(silent.asked, ['/v1/models', '/version']);
  const failing: AskBackend = async (of, address) => {
    if (address.path === '/version') throw new Error('reset');
    return silent.ask(of, address);
  };
  t.like(await askFacts(failing, backend, ['m']), { engine: 'vLLM' });
});

test('the context is that of the model of this name, of the only one, or the largest of several if all are known', async (t) => {
  const models = list({ id: 'a', max_model_len: 100 }, { id: 'b', max_model_len: 200 }, { id: 'c' });
  const contextOf = async (data: object, names: readonly string[]) => {
    const facts = await factsOf({ '/v1/models': data }, names);
    return 'refused' in facts ? facts : { contextTokens: facts.contextTokens, missing: facts.missing };
  };
  t.deepEqual(await contextOf(models, ['a']), { contextTokens: 100, missing: [] });
  t.deepEqual(await contextOf(models, ['a', 'b']), { contextTokens: 200, missing: [] });
  t.deepEqual(await contextOf(models, ['a', 'c']), { contextTokens: undefined, missing: [] });
  t.deepEqual(await contextOf(models, ['a', 'd']), { contextTokens: undefined, missing: ['d'] });
  t.deepEqual(await contextOf(list({ id: 'a', max_model_len: 100 }), ['d']), { contextTokens: 100, missing: ['d'] });
  t.deepEqual(await contextOf(list(), ['d']), { contextTokens: undefined, missing: ['d'] });
});

test('what a backend says is hostile: no list, wrong values and control characters do no harm', async (t) => {
  const noLists = ['', 'no JSON', '[', '['.repeat(500_000), 'null', '1', '{"data":{}}', '{"object":"list"}'];
  for (const text of noLists)
    t.deepEqual(await factsOf({ '/v1/models': text }, ['m']), { refused: 200 }, text.slice(0, 9));
  t.deepEqual(await factsOf({}, ['m']), { refused: 404 });
  const wrong = list(...[{ id: 1 }, { id: '' }, null as unknown as object], {
    id: 'm',
    owned_by: 7,
    max_model_len: -1,
    context_length: '9',
    meta: { n_ctx: 1.5, n_ctx_train: 1e30 },
  });
  t.like(await factsOf({ '/v1/models': wrong }, ['m'], { server: 'evil\r\n\u001b[31mred'.repeat(50) }), {
    ...{ models: ['m'], missing: [], contextTokens: undefined },
    engine: `${'evil[31mred'.repeat(10).slice(0, 100)}…`,
  });
  const odd = list({ id: 'm\u0000\u001b]0;x', owned_by: 'llamacpp' });
  const props = { total_slots: '4', build_info: { a: 1 } };
  t.like(await factsOf({ '/v1/models': odd, '/props': props }, ['m']), {
    ...{ engine: 'llama.cpp', slots: undefined, models: ['m]0;x'] },
  });
  t.like(await factsOf({ '/v1/models': odd, '/props': '[1]' }, ['m']), { engine: 'llama.cpp' });
});

test('a list of the provider itself is read, and no more than 5,000 models of it', async (t) => {
  const many = Array.from({ length: 6_000 }, (_, index) => ({ id: `m${index}`, context_length: 10 }));
  const facts = await factsOf({ '/v1/models': many }, ['m4999', 'm5000']);
  t.like(facts, { missing: ['m5000'], models: { length: 5_000 } });
});

test('the models of a backend have its own name, or the names of the plan file', (t) => {
  const { planFile } = parsedPlan(({ models, backends }) => {
    Object.assign(models, { 'large-chat': models['small-chat'] });
    Object.assign(backends.cloud, { model: 'their-name' });
  });
  t.deepEqual(modelNamesAt(planFile, 'cloud'), ['their-name']);
  t.deepEqual(modelNamesAt(planFile, 'onprem-a'), ['small-chat', 'large-chat']);
  t.deepEqual(modelNamesAt(planFile, 'none'), []);
});
