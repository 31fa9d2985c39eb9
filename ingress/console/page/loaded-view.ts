import { type ComponentChildren, h } from 'preact';
import { Failure } from './failure.ts';
import type { LoadState } from './use-loaded.ts';

type Props<Value> = {
  loaded: LoadState<Value>;
  /** Name of the value, for the message while it loads. */
  what: string;
  children: (value: Value) => ComponentChildren;
};

/** Shows a value while it loads, after it failed, and when it is loaded; a loaded value stays if a reload fails. */
export function LoadedView<Value>({ loaded: { value, error, loading, reload }, what, children }: Props<Value>) {
  return h(
    'div',
    { class: 'loaded', 'aria-busy': loading },
    error !== undefined && h(Failure, { error, retry: reload }),
    value === undefined && loading && h('p', { class: 'quiet', role: 'status' }, `Loading ${what} …`),
    value !== undefined && children(value),
  );
}
