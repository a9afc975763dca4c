import java.net.Socket;

/** The same as send.c, on the JVM. */
class Send {
	public static void main(String[] words) throws Exception {
		int size = Integer.parseInt(words[2]), chunk = Integer.parseInt(words[3]);
		byte[] data = new byte[size];
		String line = "";
		for (int i = 0; i < 3; i++)
			line = (size - line.length()) + "\n";
		System.arraycopy(line.getBytes(), 0, data, 0, line.length());
		try (Socket socket = new Socket(words[0], Integer.parseInt(words[1]))) {
			for (int flow = Integer.parseInt(words[4]); flow > 0; flow--) {
				for (int at = 0; at < size; at += chunk)
					socket.getOutputStream().write(data, at, Math.min(chunk, size - at));
				if (socket.getInputStream().read() < 0)
					throw new IllegalStateException("no answer");
			}
		}
	}
}
