import { type ComponentChildren, h } from 'preact';
import { useId } from 'preact/hooks';
import { Icon } from '../frame/icons.ts';

type Props = {
  title: string;
  /** The page that has all of it. */
  more?: { href: string; link: string };
  children?: ComponentChildren;
};

/** A part of a page that shows several things. */
export function Panel({ title, more, children }: Props) {
  const id = useId();
  return h(
    'section',
    { class: 'card panel', 'aria-labelledby': id },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', { id }, title),
      more && h('a', { href: more.href }, more.link, h(Icon, { name: 'next' })),
    ),
    children,
  );
}
