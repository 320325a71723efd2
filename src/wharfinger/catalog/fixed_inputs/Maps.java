import java.util.*;

public class Maps {
    public static void main(String[] arguments) {
        Random random = new Random(12345);
        for (long done = 1; ; done++) {
            Map<String, Integer> counts = new TreeMap<>();
            for (int i = 0; i < 8000; i++) {
                counts.merge("k" + random.nextInt(5000), 1, Integer::sum);
            }
            System.out.println("done=" + done);
            System.out.flush();
        }
    }
}
