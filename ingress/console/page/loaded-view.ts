import { type ComponentChildren, h } from 'preact';
import { Failure } from './failure.ts';
import type { Loaded } from './use-loaded.ts';

type Props<Value> = {
  loaded: Loaded<Value>;
  /** What is being loaded, for the words while it is. */
  what: string;
  children: (value: Value) => ComponentChildren;
};

/** A view in each of its states: loading, failed, there; and there while loading it anew has failed. */
export function LoadedView<Value>({ loaded: { value, error, loading, reload }, what, children }: Props<Value>) {
  return h(
    'div',
    { 'aria-busy': loading },
    error !== undefined && h(Failure, { error, retry: reload }),
    value === undefined && loading && h('p', { class: 'quiet', role: 'status' }, `Loading ${what} …`),
    value !== undefined && children(value),
  );
}
