import { h } from 'preact';

export type Tone = 'good' | 'moving' | 'warning' | 'bad' | 'neutral';

/** A state in a word, with a colour that says how it is to be taken. */
export function StateBadge({ state, tone }: { state: string; tone: Tone }) {
  return h('span', { class: `state ${tone}` }, state);
}
