import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';
import type { Attack, Preparation } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const answerMs = 3_000;
const answer = {
  ...{ id: 'chatcmpl-slow', object: 'chat.completion', created: 1_700_000_000, model: 'slow-chat' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
};
const body = { model: 'slow-chat', messages: [{ role: 'user', content: 'Hi' }] };

/** A model of the callers' own pool that answers after three seconds, eight requests at once. */
async function prepareSlowModel(): Promise<Preparation> {
  const bytes = rawAnswer(JSON.stringify(answer), { type: 'application/json' });
  const backend = await startRawBackend((socket) => setTimeout(() => socket.write(bytes), answerMs));
  return {
    stack: {
      env: { QUEUE_DEPTH_MAX: '100' },
      backends: { cloud: { url: backend.url, requests_at_once: 8 } },
      models: {
        'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a', 'onprem-b'] },
        'slow-chat': { tier: 'guest', pool: 'default', backends: ['cloud'] },
      },
    },
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

export const fullQueue: Attack = {
  id: '13',
  name: 'full-queue',
  does: 'requests to a busy model, 400 at once from one account without limits, where 100 may wait; at most 200 a second',
  accounts: 1,
  plan: 'pro',
  prepare: prepareSlowModel,
  async run(attacker) {
    const send = openAgent(attacker);
    const [bearer = ''] = attacker.target.keys;
    await repeat(attacker, { clients: 400, perSecond: 200 }, () =>
      send({ path: '/v1/chat/completions', bearer, body }),
    );
  },
};
