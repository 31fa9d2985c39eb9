import { type ComponentChildren, h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { requestLink } from '../page/console-route.ts';
import { ShortId } from '../page/identifiers.ts';
import { Failure } from '../page/loaded-view.ts';
import { wasAdmitted } from '../requests/code-words.ts';
import { figuresOf, type Price } from './answer-figures.ts';
import { TextField } from './composer.ts';
import type { Reply, Turn } from './conversation.ts';
import type { TriedEndpoint } from './tried-endpoint.ts';
import type { Trial } from './use-trial.ts';

type Props = { trial: Trial; endpoint: TriedEndpoint; models: readonly Model[] };

/** The conversation so far, below its system text. */
export function Thread({ trial, endpoint, models }: Props) {
  const { composition, turns } = trial;
  const end = useRef<HTMLDivElement>(null);
  const prices = new Map(models.map(({ id, price }) => [id, price]));
  useEffect(() => {
    if (turns.length > 0) end.current?.scrollIntoView({ block: 'end' });
  }, [turns.length]);
  return h(
    'div',
    { class: 'thread' },
    endpoint.takes === 'messages' &&
      h(TextField, {
        name: 'system',
        label: 'System text',
        placeholder: 'Optional: how the model is to answer',
        isLines: true,
        value: composition.system,
        change: trial.change,
      }),
    h(
      'ol',
      { class: 'turns' },
      turns.map((turn) => h(TurnView, { key: turn.id, turn, prices })),
    ),
    h('p', { role: 'status', class: 'quiet' }, wordsOf(turns.at(-1))),
    h('div', { ref: end, class: 'thread-end' }),
  );
}

function wordsOf(turn: Turn | undefined): string {
  if (turn === undefined) return 'No answer yet.';
  const { replies } = turn;
  const states = new Set(replies.map(({ state }) => state));
  if (states.has('running'))
    return replies.some(({ answer }) => answer?.text) ? 'Streaming …' : 'Waiting for the answer …';
  if (states.has('failed')) return 'The answer is incomplete.';
  if (states.has('stopped')) return 'Stopped before the answer was complete. The part received so far is charged.';
  return replies.length > 1 ? 'The answers are complete.' : 'The answer is complete.';
}

type Prices = ReadonlyMap<string, Price | undefined>;

function TurnView({ turn: { text, documents, replies }, prices }: { turn: Turn; prices: Prices }) {
  return h(
    'li',
    null,
    h('div', { class: 'bubble' }, h('span', { class: 'unseen' }, 'You: '), [text, ...documents].join('\n')),
    h(
      'div',
      { class: replies.length > 1 ? 'replies beside' : 'replies' },
      replies.map((reply, index) => h(ReplyView, { key: index, reply, price: prices.get(reply.model) })),
    ),
  );
}

function ReplyView({ reply, price }: { reply: Reply; price: Price | undefined }) {
  const { model, state, answer, error } = reply;
  return h(
    'section',
    { class: 'reply', 'aria-label': `Answer of ${model}` },
    h('p', { class: 'quiet' }, model),
    answer !== undefined && h('div', { class: 'answer', 'aria-busy': state === 'running' }, answer.text),
    answer === undefined && state === 'running' && h('div', { class: 'answer waiting', 'aria-hidden': true }, '…'),
    state === 'stopped' && h('p', { class: 'quiet' }, 'Stopped.'),
    state === 'failed' && h(FailedReply, { error }),
    answer !== undefined &&
      h(
        'dl',
        { class: 'timing' },
        figuresOf(answer, price).map(([term, value]) => h(Fact, { key: term, term }, value)),
        answer.requestId !== undefined &&
          h(
            Fact,
            { term: 'Request', isWide: true },
            h(ShortId, { id: answer.requestId, what: 'request ID', href: requestLink(answer.requestId) }),
          ),
      ),
  );
}

type FactProps = { term: string; isWide?: boolean; children?: ComponentChildren };

function Fact({ term, isWide = false, children }: FactProps) {
  return h('div', { class: isWide ? 'wide' : '' }, h('dt', null, term), h('dd', null, children));
}

/** Only an admitted request has a page of its own. */
function FailedReply({ error }: { error: unknown }) {
  const requestId = error instanceof ApiFailure && wasAdmitted(error) ? error.requestId : undefined;
  return [
    h(Failure, { error }),
    requestId !== undefined && h('p', null, h('a', { href: requestLink(requestId) }, 'Why it failed')),
  ];
}
