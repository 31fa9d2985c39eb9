import { generatingNames } from '../../shared/endpoints/endpoints.ts';
import type { StackBackend, StackModel } from '../stack/plan.ts';
import { startedModels } from '../stack/started-models.ts';
import { type EngineModel, provideEngine } from './provide-engine.ts';
import { type Engine, startEngine } from './start-engine.ts';

type Place = { model: EngineModel; location: StackBackend['location'] };

/** Backends of `npm start -- --engine`. Those for chats have the names of the simulated ones. */
const places: Readonly<Record<string, Place>> = {
  'onprem-a': { model: 'chat', location: 'on-prem' },
  'onprem-b': { model: 'chat', location: 'on-prem' },
  cloud: { model: 'chat', location: 'cloud' },
  embed: { model: 'embed', location: 'on-prem' },
  rank: { model: 'rank', location: 'on-prem' },
};
const chats = Object.keys(places).filter((name) => places[name]?.model === 'chat');
const slots = 4;
const contextTokens = { chat: 8_192, embed: 512, rank: 512 } as const;

/** The models of `npm start`, as engines can serve them: each has one kind of answers. */
const models: Record<string, StackModel> = {
  ...Object.fromEntries(
    Object.entries(startedModels).map(([name, model]) => [
      name,
      { ...model, backends: chats, endpoints: generatingNames },
    ]),
  ),
  'small-embed': { tier: 'guest', pool: 'default', backends: ['embed'], endpoints: ['embeddings'] },
  'small-rank': { tier: 'guest', pool: 'default', backends: ['rank'], endpoints: ['rerank'] },
};

export interface StartedEngines extends AsyncDisposable {
  engines: readonly Engine[];
  backends: Record<string, StackBackend>;
  models: Record<string, StackModel>;
}

/** Installs the engine where that was not done, and starts one for each backend. Where no port is given, it is a free one. */
export async function startEngines(ports: readonly number[], onStep: (step: string) => void): Promise<StartedEngines> {
  const files = await provideEngine(onStep);
  await using started = new AsyncDisposableStack();
  const starting = Object.entries(places).map(async ([name, { model, location }], index) => {
    const context = contextTokens[model as keyof typeof contextTokens];
    const port = ports[index];
    const wanted = { files, model, slots, contextTokens: context, ...(port !== undefined && { port }) };
    const engine = started.use(await startEngine(wanted));
    return { engine, backend: [name, { url: `${engine.url}/v1`, location, requests_at_once: slots }] as const };
  });
  const all = await Promise.all(starting);
  const owned = started.move();
  return {
    engines: all.map(({ engine }) => engine),
    backends: Object.fromEntries(all.map(({ backend }) => backend)),
    models,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
