import { h } from 'preact';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { AccountSettings, DoneChange } from './account-changes.ts';

type Props = { done: DoneChange | undefined; undo: (settings: AccountSettings) => Promise<void> };

/** What was just changed, with a button that takes it back where that is possible. */
export function DoneNotice({ done, undo }: Props) {
  const back = done?.undo;
  const doing = useDoing(async () => {
    if (back !== undefined) await undo(back);
  });
  return [
    h(
      'div',
      { role: 'status', class: done === undefined ? '' : 'done-notice' },
      done !== undefined && [
        h('span', { class: 'good' }, `${done.words} ${done.after ?? 'It applies from the next request.'} `),
        back !== undefined && h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, 'Undo'),
      ],
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}
