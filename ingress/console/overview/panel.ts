import { type ComponentChildren, h } from 'preact';
import { useId } from 'preact/hooks';
import { Icon } from '../frame/icons.ts';

type Props = { title: string; href: string; link: string; children?: ComponentChildren };

/** A part of the overview, with a link to the page that has all of it. */
export function Panel({ title, href, link, children }: Props) {
  const id = useId();
  return h(
    'section',
    { class: 'card panel', 'aria-labelledby': id },
    h('div', { class: 'panel-head' }, h('h2', { id }, title), h('a', { href }, link, h(Icon, { name: 'next' }))),
    children,
  );
}
