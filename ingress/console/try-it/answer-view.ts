import { h } from 'preact';
import { requestLink } from '../page/console-route.ts';
import { formatCount } from '../page/format.ts';
import { ShortId } from '../page/identifiers.ts';
import { Figures } from '../page/table.ts';
import type { Answer } from './stream-answer.ts';
import type { Tokens } from './tried-endpoint.ts';

type Props = {
  state: 'idle' | 'running' | 'stopped' | 'done' | 'failed';
  answer: Answer | undefined;
  /** Continues the conversation with this answer. */
  extend?: (text: string) => void;
};

const words = {
  idle: 'No answer yet.',
  running: 'Waiting for the answer …',
  stopped: 'Stopped before the answer was complete. The part received so far is charged.',
  done: 'The answer is complete.',
  failed: 'The answer is incomplete.',
};

/** The text as it arrives, with its timing and usage. */
export function AnswerView({ state, answer, extend }: Props) {
  const isStreaming = state === 'running' && answer !== undefined && answer.text !== '';
  return h(
    'section',
    { 'aria-labelledby': 'answer-title' },
    h('h2', { id: 'answer-title' }, 'Answer'),
    h('p', { role: 'status', class: 'quiet' }, isStreaming ? 'Streaming …' : words[state]),
    answer && [
      h('div', { class: 'answer', 'aria-busy': state === 'running' }, answer.text),
      extend !== undefined &&
        state === 'done' &&
        answer.text !== '' &&
        h(
          'div',
          { class: 'actions' },
          h('button', { type: 'button', onClick: () => extend(answer.text) }, 'Continue the conversation'),
        ),
      h(Figures, {
        figures: [
          ['Time to first token', milliseconds(answer.firstTokenMs)],
          ['Total time', milliseconds(answer.totalMs)],
          ['Prompt tokens', tokens(answer.tokens.prompt)],
          ['Completion tokens', tokens(answer.tokens.completion)],
          ['Total tokens', tokens(totalOf(answer.tokens))],
          ['Finish reason', answer.finishReason ?? '–'],
          ['Request ID', answer.requestId === undefined ? '–' : requestId(answer.requestId)],
        ],
      }),
    ],
  );
}

function requestId(id: string) {
  return h(ShortId, { id, what: 'request ID', href: requestLink(id) });
}

/** Not every endpoint reports the sum. */
function totalOf({ prompt, completion, total }: Tokens): number | undefined {
  return total ?? (prompt === undefined || completion === undefined ? undefined : prompt + completion);
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? '–' : `${formatCount(ms)} ms`;
}

function tokens(count: number | undefined): string {
  return count === undefined ? '–' : formatCount(count);
}
