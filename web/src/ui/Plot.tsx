/** Small line chart over time. */
export interface Point {
  /** In milliseconds. */
  time: number;
  value: number;
}

interface PlotProps {
  label: string;
  /** In order of time; the last one is of now. */
  points: Point[];
  /** Time from the left edge to the right one, in milliseconds. */
  span: number;
  show: (value: number) => string;
}

const WIDTH = 240;
const HEIGHT = 56;

export function Plot({ label, points, span, show }: PlotProps) {
  const now = points.at(-1) ?? { time: 0, value: 0 };
  const shown = points.filter(({ time }) => now.time - time <= span);
  const highest = Math.max(0, ...shown.map(({ value }) => value));
  const x = (time: number) => WIDTH * (1 - (now.time - time) / span);
  const y = (value: number) => HEIGHT - 2 - (value / Math.max(1, highest)) * (HEIGHT - 6);
  const line = shown.map(({ time, value }) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`);
  const start = x(shown[0]?.time ?? now.time).toFixed(1);
  const area = `${start},${HEIGHT} ${line.join(" ")} ${WIDTH},${HEIGHT}`;
  return (
    <figure class="plot">
      <figcaption>
        <span>{label}</span>
        <strong>{show(now.value)}</strong>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: now ${show(now.value)}, maximum ${show(highest)}`}
      >
        <polygon points={area} />
        <polyline points={line.join(" ")} />
      </svg>
    </figure>
  );
}
