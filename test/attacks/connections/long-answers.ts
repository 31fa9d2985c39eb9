import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';
import type { Preparation } from '../attack.ts';

const answerBytes = 4_194_304;
const eventBytes = 16_384;
const usage = { prompt_tokens: 10, completion_tokens: 900_000, total_tokens: 900_010 };
const named = { id: 'chatcmpl-long', created: 1_700_000_000, model: 'long-chat' };

/**
 * A stack with a model whose answers have 4 MiB and are prepared in advance: the stack's own model servers would need more time than the
 * service.
 */
export async function prepareLongAnswers({ stream }: { stream: boolean }): Promise<Preparation> {
  const answer = Buffer.from(stream ? rawAnswer(events()) : rawAnswer(whole(), { type: 'application/json' }));
  const backend = await startRawBackend((socket) => socket.write(answer));
  return {
    stack: {
      backends: { cloud: { url: backend.url } },
      models: {
        'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a', 'onprem-b'] },
        'long-chat': { tier: 'guest', pool: 'default', backends: ['cloud'], output_tokens_max: 1_000_000 },
      },
    },
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

function whole(): string {
  const message = { role: 'assistant', content: 'word '.repeat(answerBytes / 5) };
  return JSON.stringify({
    ...named,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage,
  });
}

function events(): string {
  const event = (fields: object) =>
    `data: ${JSON.stringify({ ...named, object: 'chat.completion.chunk', ...fields })}\n\n`;
  const content = 'word '.repeat(eventBytes / 5);
  return [
    event({ choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }] }),
    event({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }).repeat(answerBytes / eventBytes),
    event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    event({ choices: [], usage }),
    'data: [DONE]\n\n',
  ].join('');
}
