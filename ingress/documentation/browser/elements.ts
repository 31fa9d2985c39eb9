type Attributes = Readonly<Record<string, string>>;

/** Makes an element; texts in it are never HTML. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes,
  ...content: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

/** An icon of this path, 16 by 16, that screen readers ignore. */
export function icon(path: string): SVGSVGElement {
  const namespace = 'http://www.w3.org/2000/svg';
  const drawn = document.createElementNS(namespace, 'svg');
  for (const [key, value] of Object.entries({
    viewBox: '0 0 16 16',
    width: '16',
    height: '16',
    'aria-hidden': 'true',
  })) {
    drawn.setAttribute(key, value);
  }
  const line = document.createElementNS(namespace, 'path');
  line.setAttribute('d', path);
  drawn.append(line);
  return drawn;
}
