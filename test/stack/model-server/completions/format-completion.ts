import type { StreamEvent } from '../endpoint.ts';
import { dataEvent, doneEvent, openAiForm } from '../openai-form.ts';
import type { CompletionAnswer, CompletionChoice } from './answer-completion.ts';

/** An answer, and how many tokens of its prompts were cached. */
export type ReadCompletion = CompletionAnswer & { readonly cachedTokens: number };

/** The fields that are the same in the whole reply and in each event. */
export interface Heading {
  readonly id: string;
  readonly object: 'text_completion';
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

/** What the request asks for besides the text. */
interface Extras {
  readonly logprobs: boolean;
  readonly usage: boolean;
}

export const completionForm = openAiForm({
  textOpenings: ['"text":"'],
  wholeUpToText: '{"choices":[{"index":0,"text":"',
  eventUpToText: 'data: {"choices":[{"index":0,"text":"',
  eventAfterText: '","finish_reason":null}]}\n\n',
  emptyEvent: 'data: {"choices":[{"index":0,"text":"","finish_reason":null}]}\n\n',
});

/** The complete reply as JSON. */
export function formatCompletion(answer: ReadCompletion, heading: Heading, { logprobs, usage }: Extras): string {
  return JSON.stringify({
    ...heading,
    choices: answer.choices.map((choice, index) => ({
      index,
      text: [...choice.prompt, ...choice.content].join(''),
      logprobs: logprobs ? logprobsOf(choice, 0) : null,
      finish_reason: choice.finishReason,
    })),
    ...(usage && { usage: usageOf(answer) }),
  });
}

/** The reply as server-sent events: several choices take turns, token by token, and all of them finish at the end. */
export function* completionEvents(
  answer: ReadCompletion,
  heading: Heading,
  { logprobs, usage }: Extras,
): Generator<StreamEvent> {
  const event = (kind: StreamEvent['kind'], index: number, part: CompletionChoice, offset: number): StreamEvent => {
    const text = [...part.prompt, ...part.content].join('');
    const withLogprobs = logprobs && kind !== 'finish' ? logprobsOf(part, offset) : null;
    const finishReason = kind === 'finish' ? part.finishReason : null;
    const choice = { index, text, logprobs: withLogprobs, finish_reason: finishReason };
    return { kind, text: dataEvent({ ...heading, choices: [choice] }) };
  };
  const { choices } = answer;
  for (const [index, choice] of choices.entries()) {
    if (choice.prompt.length > 0) yield event('open', index, { ...choice, content: [] }, 0);
  }
  const offsets = choices.map(({ prompt }) => prompt.join('').length);
  const longest = choices.reduce((most, { content }) => Math.max(most, content.length), 0);
  for (let turn = 0; turn < longest; turn += 1) {
    for (const [index, choice] of choices.entries()) {
      const token = choice.content[turn];
      if (token === undefined) continue;
      const offset = offsets[index] ?? 0;
      yield event('chunk', index, { ...choice, prompt: [], content: [token] }, offset);
      offsets[index] = offset + token.length;
    }
  }
  for (const [index, choice] of choices.entries()) {
    yield event('finish', index, { ...choice, prompt: [], content: [] }, 0);
  }
  if (usage) yield { kind: 'usage', text: dataEvent({ ...heading, choices: [], usage: usageOf(answer) }) };
  yield { kind: 'done', text: doneEvent };
}

/** `offset` is where the first token begins in the text of the choice. The first token of a prompt has no probability. */
function logprobsOf({ prompt, content }: CompletionChoice, offset: number) {
  const tokens = [...prompt, ...content];
  const isFirst = (index: number) => index === 0 && prompt.length > 0;
  let end = offset;
  return {
    text_offset: tokens.map(({ length }) => {
      end += length;
      return end - length;
    }),
    token_logprobs: tokens.map(({ length }, index) => (isFirst(index) ? null : -length)),
    tokens,
    top_logprobs: tokens.map((token, index) => (isFirst(index) ? null : { [token]: -token.length })),
  };
}

function usageOf({ promptTokens, completionTokens, cachedTokens }: ReadCompletion) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(cachedTokens > 0 && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
  };
}
